"""The slope test of the soak: what is level, what grows, and what only seems to."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from faults.soak.counts import disagreements
from faults.soak.sampling import GROWTH_MAX, grows, held_by
from faults.soak.trend import of
from support.waiting import wait_until
from support.worker import state

TIMES_S = range(0, 1800, 10)


def noise(seed: int) -> list[float]:
    chance = random.Random(seed)  # noqa: S311
    return [chance.gauss(0, 400) for _ in TIMES_S]


@pytest.mark.parametrize("seed", range(5))
def test_what_only_varies_does_not_grow(seed: int) -> None:
    values = [50_000 + each for each in noise(seed)]
    assert not of([*zip(TIMES_S, values, strict=True)]).exceeds(GROWTH_MAX["KiB"])


@pytest.mark.parametrize("seed", range(5))
def test_what_grows_within_noise_is_detected(seed: int) -> None:
    """2 KiB per second are 3.5 MiB in the time."""
    values = [50_000 + 2 * at + each for at, each in zip(TIMES_S, noise(seed), strict=True)]
    found = of([*zip(TIMES_S, values, strict=True)])
    assert 1.7 < found.low < found.slope < found.high < 2.3
    [said] = grows({("worker", "KiB"): found})
    assert said.startswith("worker: KiB grow by 3")


def test_a_single_step_and_outliers_are_no_trend() -> None:
    values = [50_000.0] * 20 + [60_000.0] * 160
    values[100] = 900_000
    assert not of([*zip(TIMES_S, values, strict=True)]).exceeds(GROWTH_MAX["KiB"])


def test_a_descriptor_that_is_left_every_minute_is_detected() -> None:
    chance = random.Random(1)  # noqa: S311
    values = [20 + at // 60 + chance.randrange(8) for at in TIMES_S]
    found = of([*zip(TIMES_S, values, strict=True)])
    assert found.exceeds(GROWTH_MAX["descriptors"])


def test_few_samples_have_a_trend() -> None:
    assert of([(0, 1), (1, 2), (2, 3)]).slope == 1


def test_a_process_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        wait_until(lambda: state(process.pid) == "Z")
        assert held_by(process.pid, tmp_path) == {}
    assert held_by(process.pid, tmp_path) == {}
    assert held_by(os.getpid(), tmp_path)["KiB"] > 1000


@pytest.mark.parametrize(
    ("clients", "application", "expected"),
    [
        ({"a complete": 3}, {"a begun": 3, "a ended": 3}, None),
        ({"a complete": 3, "a lost": 1}, {"a begun": 3, "a ended": 3}, "a: 1 requests were lost"),
        ({"a complete": 3}, {"a begun": 4, "a ended": 4}, "clients have 3 complete, the applic"),
        ({"a complete": 3}, {"a begun": 3, "a ended": 2}, "a: 3 were begun, 2 ended"),
        (
            {"a complete": 1, "a sent octets": 10},
            {"a begun": 1, "a ended": 1, "a octets": 9},
            "clients have 10 sent octets, the application 9 octets",
        ),
        ({"leave left": 9}, {"leave begun": 4, "leave ended": 4, "leave made": 10**6}, None),
        ({"leave left": 3}, {"leave begun": 4, "leave ended": 4}, "4 were begun of fewer sent"),
        ({"leave left": 9}, {"leave begun": 4, "leave ended": 3}, "leave: 4 were begun, 3 ended"),
    ],
)
def test_ledgers_that_differ(
    clients: dict[str, int], application: dict[str, int], expected: str | None
) -> None:
    wrong = disagreements(Counter(clients), Counter(application))
    if expected is None:
        assert not wrong
    else:
        assert len(wrong) == 1 and expected in wrong[0], wrong
