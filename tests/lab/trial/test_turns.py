"""Servers that run at the same time and are loaded in turns."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab import race
from bolide.lab.plan import contestant
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import ServerUse, Study, Trial
from bolide.lab.tools.fleet import InvalidLoadError
from bolide.lab.tools.load import Load, Reading
from bolide.lab.trial import trial, turns
from lab.tiny_race import (
    LIAR,
    Silent,
    among,
    liar,
    options,
    processes_with,
    renamed,
    study,
    trials_of,
    workload,
)

pytestmark = pytest.mark.slow


def in_turns(*workloads: Any, rounds: int = 1, number: int = 2) -> Study:
    """Return a study whose rounds have that many turns of 0.2 seconds."""
    short = [msgspec.structs.replace(each, duration_s=0.2) for each in workloads]
    plan = study(*(short or [workload(duration_s=0.2)]), rounds=rounds)
    return msgspec.structs.replace(plan, turn_s=0.2, duration_s=0.2 * number)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat no turn: what else runs on this machine is not what is tested."""
    monkeypatch.setattr(turns, "REPEATS_MAX", 0)


@pytest.mark.usefixtures("quiet")
def test_all_servers_of_a_group_run_while_one_is_loaded(tmp_path: Path, silent: Silent) -> None:
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    running: list[int] = []
    silent.at_end = lambda found: running.append(len(processes_with(f"{LIAR}")))
    plan = in_turns(rounds=2, number=3)
    assert race.run(plan, ["honest", "other"], options(tmp_path), silent, known)
    found = trials_of(tmp_path)
    assert Counter((each.round, each.contestant) for each in found) == {
        (turn, name): 1 for turn in range(1, 7) for name in ("honest", "other")
    }
    # Each server and both processes of its guard have the name in their command lines.
    assert set(running) == {6}
    assert processes_with(str(LIAR)) == []
    for each in found:
        assert each.failure is None and each.ok and each.requests_sent, each
        assert each.requests_sent > each.ok, "the warm-up counts too"
        assert each.seconds == pytest.approx(0.2, rel=0.2)
        assert each.command[each.command.index("--warm-up") + 1] == "200ms"


@pytest.mark.usefixtures("quiet")
def test_a_server_that_dies_fails_in_its_other_turns_too(tmp_path: Path, silent: Silent) -> None:
    ways = ["dies", "honest", "wrong-body"]
    race.run(in_turns(), ways, options(tmp_path), silent, among(*ways))
    classes: dict[str, list[str]] = {}
    for each in trials_of(tmp_path):
        classes.setdefault(each.contestant, []).append(each.failure.class_ if each.failure else "")
    assert classes == {
        "dies": ["died", "died"],
        "honest": ["", ""],
        "wrong-body": ["wrong_body", "wrong_body"],
    }
    assert processes_with(str(LIAR)) == []


@pytest.mark.usefixtures("quiet")
def test_a_server_that_is_busy_when_idle_is_stopped_between_its_turns(
    tmp_path: Path, silent: Silent
) -> None:
    known = among("honest") | {"busy": renamed(liar("honest", is_busy_when_idle=True), "busy")}
    states: list[list[str]] = []

    def look(found: Trial) -> None:
        pids = processes_with(f"{LIAR}")
        states.append(sorted(Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in pids))

    silent.at_end = look
    assert race.run(in_turns(), ["honest", "busy"], options(tmp_path), silent, known)
    assert [each.count("T") for each in states] == [1] * 4
    assert all(each.failure is None for each in trials_of(tmp_path))
    assert processes_with(str(LIAR)) == []


def test_a_disturbed_turn_is_repeated_as_often_as_is_allowed(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed(self: trial.Run, number: int | None = None) -> Trial:
        found = trial.failed(self._slot, self._conditions, trial.Failure("none", ""))
        return msgspec.structs.replace(found, failure=None, verdict="noisy", round=number)

    monkeypatch.setattr(trial.Run, "measured", disturbed)
    race.run(in_turns(number=8), ["honest"], options(tmp_path), silent, among("honest"))
    # Half of eight turns: the first two take two repeats each.
    assert Counter(each.round for each in trials_of(tmp_path)) == {
        1: 3,
        2: 3,
        **dict.fromkeys(range(3, 9), 1),
    }


def test_a_load_that_is_not_valid_is_repeated_and_ends_no_other_turn(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: dict[str, Any] = {"agents": [{"machine": {"name": "a", "host": "h"}}]}
    lost: dict[str, Any] = {"agents": [{"machine": {"name": "a", "host": "h"}, "lost": "gone"}]}
    uses = iter([late, late, late, lost])

    def measured(self: trial.Run, number: int | None = None) -> Trial:
        if (use := next(uses, None)) is not None:
            raise InvalidLoadError("agent a", use)
        found = trial.failed(self._slot, self._conditions, trial.Failure("none", ""))
        return msgspec.structs.replace(found, failure=None, verdict="neither", round=number)

    monkeypatch.setattr(trial.Run, "measured", measured)
    race.run(in_turns(number=8), ["honest"], options(tmp_path), silent, among("honest"))
    found = trials_of(tmp_path)
    # Two repeats of the first turn; the second one has lost an agent, so it would be lost again.
    assert [each.round for each in found] == [1, 1, 1, *range(2, 9)]
    assert [each.failure and each.failure.class_ for each in found] == ["fleet"] * 4 + [None] * 6


@pytest.mark.usefixtures("quiet")
def test_a_race_in_turns_goes_on_where_it_was_stopped(tmp_path: Path, silent: Silent) -> None:
    def stop(found: Trial) -> None:
        if found.round == 2:
            os.kill(os.getpid(), 2)

    silent.at_end = stop
    plan = in_turns(rounds=2)
    assert not race.run(plan, ["honest"], options(tmp_path), silent, among("honest"))
    assert processes_with(str(LIAR)) == []
    silent.at_end = lambda found: None
    assert race.run(plan, ["honest"], options(tmp_path, resumes=True), silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == [1, 2, 3, 4]
    assert silent.starts == [(4, 0), (2, 2)]


def test_how_busy_a_server_was_is_known_by_bytes() -> None:
    """Of long responses a turn has few, so their number would say less."""
    load = Load(url="", duration_s=0.5, warm_up_s=0.2)
    reading = Reading(
        ok=2,
        failed=0,
        errors={},
        requests_per_s=4.0,
        seconds=0.5,
        bytes_per_s=1e9,
        requests_sent=7,
        run_bytes=800_000_000,
    )
    use = trial._server(ServerUse(cpu_s=0.8, cpu_share=0.1), reading, load, 1)
    assert use.cpu_share == 1.0
    unknown = msgspec.structs.replace(use, cpu_share=0.1)
    for other in (replace(reading, run_bytes=None), replace(reading, run_bytes=0)):
        assert trial._server(unknown, other, load, 1) == unknown
    # A processor that is slower in the warm-up makes the estimate more than there is.
    slower_before = ServerUse(cpu_s=0.9, cpu_share=0.1)
    assert trial._server(slower_before, reading, load, 1).cpu_share == 1.0
    # Samples show what other processors did.
    elsewhere = ServerUse(cpu_s=0.9, cpu_share=1.1)
    assert trial._server(elsewhere, reading, load, 1).cpu_share == 1.1


@pytest.mark.parametrize(("cpu_s", "cpus", "share"), [(0.3, 1, 0.9), (0.4, 1, 1.0), (0.4, 2, 1.2)])
def test_how_busy_a_server_was_is_known_of_a_number_of_requests(
    cpu_s: float, cpus: int, share: float
) -> None:
    """Ten samples a second show too little of a third of a second."""
    load = Load(url="", duration_s=None, requests_total=10_000)
    seconds = 1 / 3
    reading = Reading(ok=1, failed=0, errors={}, requests_per_s=30_000.0, seconds=seconds)
    use = trial._server(ServerUse(cpu_s=cpu_s, cpu_share=0.8), reading, load, cpus)
    assert use.cpu_share == pytest.approx(share)


def test_intervals_are_not_for_turns(tmp_path: Path, silent: Silent) -> None:
    with pytest.raises(ConfigError, match="--until is not for a study with turns"):
        race.run(in_turns(), ["honest"], options(tmp_path, until=0.1), silent, among("honest"))


@pytest.mark.usefixtures("quiet")
def test_requests_have_the_fields_and_the_content_of_the_workload(
    tmp_path: Path, silent: Silent
) -> None:
    """The application responds with the size of what it was sent; a wrong one has no figure."""
    load = workload(
        app="bench.on_asgi_io:upload", content="70000", content_bytes=70_000, fields=(("X-A", "b"),)
    )
    known = dict(contestant.own())
    assert race.run(in_turns(load, number=1), ["bolide-asgi"], options(tmp_path), silent, known)
    [found] = trials_of(tmp_path)
    assert found.failure is None and found.ok, found
    assert found.command[found.command.index("--header") + 1] == "X-A: b"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("app", ["ask", "gather", "turn", "thread", "sleep"])
def test_an_application_has_its_companion(
    app: str, tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_s: list[float] = []
    monkeypatch.setattr(trial, "_others_share", lambda _, known, *more: known_s.append(known) or 0)
    load = workload(
        app=f"bench.on_asgi_io:{app}", companion="echo_selectors.py", content="Hello, World!"
    )
    known = dict(contestant.own())
    assert race.run(in_turns(load, number=1), ["bolide-asgi"], options(tmp_path), silent, known)
    [found] = trials_of(tmp_path)
    assert found.failure is None and found.ok, found
    assert processes_with("echo_selectors.py") == []
    companion_s = found.companion_cpu_s
    assert companion_s is not None and (companion_s > 0 or app not in ("ask", "gather"))
    assert found.server.cpu_s is not None
    assert known_s[0] >= companion_s + found.server.cpu_s > 0  # and of the tool


def test_a_slot_of_turns_is_a_slot() -> None:
    slot = Slot(3, workload(), liar("honest"))
    conditions = trial.Conditions("tiny", (0,), (0,), warm_up_s=0.0)
    found = trial.Run(slot, conditions).failed(trial.DeadError("it is gone"))
    assert (found.round, found.verdict, found.evidence) == (3, "failed", ["it is gone"])
