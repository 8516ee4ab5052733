"""How long a race is expected to take."""

from __future__ import annotations

from datetime import datetime

import pytest

from bolide.lab.plan import duration
from bolide.lab.plan.schedule import Slot
from lab.tiny_race import liar, workload

NOW = datetime(2026, 11, 22, 21, 30)


def slots(number: int, **more: object) -> list[Slot]:
    return [Slot(each, workload(**more), liar("well")) for each in range(number)]


def test_the_announcement_has_load_start_up_and_the_end() -> None:
    assert duration.announcement(slots(300, duration_s=5.0), NOW) == (
        "300 trials: 25 min of load and 6 min to start and verify servers, until about 22:01"
    )
    assert duration.announcement(slots(1, duration_s=5.0), NOW) == (
        "1 trial: 5 s of load and 1 s to start and verify servers, until about 21:30"
    )
    many = duration.announcement(slots(6000, duration_s=5.0, connections=10_000), NOW)
    assert many == (
        "6,000 trials: 8 h 20 min of load and 12 h 00 min to start and verify servers,"
        " until about Mon 17:50"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(6 * 86_400, "Sat 21:30"), (7 * 86_400, "2026-11-29"), (9e14, "9999-12-31")],
)
def test_an_end_after_a_week_is_a_date(seconds: float, said: str) -> None:
    assert duration.clock(NOW, seconds) == said


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"duration_s": 3.0}, 3.0),
        ({"duration_s": None, "requests_total": 20_000}, 2.0),
        ({"duration_s": 2.0, "finds": "p99 < 10ms"}, 24.0),
    ],
)
def test_how_long_a_load_takes(more: dict[str, object], seconds: float) -> None:
    assert duration.load_s(workload(**more)) == seconds


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"tool": "bolide"}, 5.0),
        ({"tool": "wrk"}, 0.0),
        ({"tool": "bolide", "is_persistent": False}, 0.0),
        ({"tool": "bolide", "connections": 100}, 0.0),
        ({"tool": "bolide", "tls": "resumed"}, 0.0),
    ],
)
def test_connections_take_time_before_the_load(more: dict[str, object], seconds: float) -> None:
    fields = {"duration_s": 3.0, "connections": 10_000, **more}
    start_s = duration.START_S if fields["connections"] == 100 else duration.START_MANY_S
    assert duration.trial_s(workload(**fields)) == 3.0 + start_s + seconds


def test_the_remaining_time_follows_what_trials_have_taken() -> None:
    left = duration.Remaining(slots(200, duration_s=8.8), now_s=1000.0)
    assert left.seconds(1000.0) == pytest.approx(2000.0)
    for _ in range(100):
        left.end_trial()
    assert left.seconds(2000.0) == pytest.approx(1000.0)
    assert left.seconds(3000.0) == pytest.approx(2000.0, rel=0.05)
    for _ in range(100):
        left.end_trial()
    assert left.seconds(9000.0) == 0


def test_a_turn_starts_no_server() -> None:
    slots = [Slot(1, workload(duration_s=0.5), liar("a"), is_turn) for is_turn in (False, True)]
    assert [duration.slot_s(each) for each in slots] == [1.7, 1.0]
