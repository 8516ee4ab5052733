"""How long a race takes: expected before it starts, corrected by what its trials have taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta

from bolide.lab.plan.schedule import Slot
from bolide.lab.plan.study import MANY_CONNECTIONS
from bolide.lab.record.schema import Workload
from bolide.lab.tools.fleet import Fleet

START_S = 1.2
"""What a trial takes besides its load: start, verification, warm-up, end (docs/results: 1.1 s)."""
START_MANY_S = 2.2
"""The same with MANY_CONNECTIONS or more."""
FLEET_S = 3.0
"""What a trial takes besides if agents of a fleet generate its load: they connect and wait."""
LOCAL_FLEET_S = 6.0
"""The same if they are started for it on this machine."""
TURN_S = 0.5
"""What a turn takes besides its load: the tool's start and warm-up, and a share of the servers'."""
REQUESTS_PER_S = 10_000
"""Assumed rate of a load with a number of requests."""
OPENED_MIN, OPENED_PER_S = 100, 2000
"""With more connections, `bolide load` opens so many per second before the load (docs/load.md)."""
SEARCH_TRIALS = 12
"""Trials of a search for the highest rate: to double it once, to halve the gap five times."""
TRUSTED_S = 30.0
"""The expected time has this weight beside the measured one."""
MINUTE_S = 60
HOUR_S = 3600
WEEK_S = 6 * 24 * HOUR_S
"""Days have different names within it."""


def load_s(workload: Workload) -> float:
    """Return how long the load of a trial is expected to take."""
    if workload.requests_total:
        return workload.requests_total / REQUESTS_PER_S
    return (workload.duration_s or 0.0) * (SEARCH_TRIALS if workload.finds else 1)


def trial_s(workload: Workload) -> float:
    """Return how long a trial is expected to take."""
    is_great = workload.connections >= MANY_CONNECTIONS
    start_s = START_MANY_S if is_great else START_S
    return load_s(workload) + start_s + _opening_s(workload)


def _opening_s(workload: Workload) -> float:
    """Return how long connections are opened before the load; with a handshake, hardly any time."""
    is_own = workload.tool == "bolide" and not workload.requests_total
    is_plain = not workload.tls and workload.http_version == "1.1" and not workload.messages
    if not (is_own and is_plain and workload.is_persistent and workload.connections > OPENED_MIN):
        return 0.0
    return workload.connections / OPENED_PER_S * (SEARCH_TRIALS if workload.finds else 1)


def slot_s(slot: Slot) -> float:
    """Return how long a slot is expected to take, which starts no server if it is a turn."""
    return load_s(slot.workload) + TURN_S if slot.is_turn else trial_s(slot.workload)


def announcement(slots: Sequence[Slot], now: datetime, fleet: Fleet | None = None) -> str:
    """Return how long trials will take, and when they will have ended."""
    beside_s = 0.0 if fleet is None else LOCAL_FLEET_S if fleet.is_local else FLEET_S
    total = sum(slot_s(each) + beside_s for each in slots)
    load = sum(load_s(each.workload) for each in slots)
    number = f"{len(slots):,} trial{'s' * (len(slots) != 1)}"
    return (
        f"{number}: {text(load)} of load and {text(total - load)} to start and verify servers,"
        f" until about {clock(now, total)}"
    )


def text(seconds: float) -> str:
    """Format a rough duration: `45 s`, `12 min`, `2 h 05 min`."""
    minutes = round(seconds / MINUTE_S)
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_S:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02} min"


def clock(now: datetime, seconds: float) -> str:
    """Return the time of day in so many seconds, with its day if that is not today.

    After a week, it is the date.
    """
    if seconds > WEEK_S:
        most_s = (datetime.max - now).total_seconds() - 1
        return f"{now + timedelta(seconds=min(seconds, most_s)):%Y-%m-%d}"
    end = now + timedelta(seconds=seconds)
    return f"{end:%H:%M}" if end.date() == now.date() else f"{end:%a %H:%M}"


class Remaining:
    """The time that a race still takes, from how long its trials take compared with expected."""

    def __init__(self, slots: Sequence[Slot], now_s: float) -> None:
        self._left = deque(map(slot_s, slots))
        self._done_s = 0.0
        self._started_s = now_s

    def end_trial(self) -> None:
        """Count the next trial as done."""
        if self._left:
            self._done_s += self._left.popleft()

    def seconds(self, now_s: float) -> float:
        """Return the remaining seconds."""
        taken_s = now_s - self._started_s
        pace = (taken_s + TRUSTED_S) / (self._done_s + TRUSTED_S)
        return sum(self._left) * pace
