"""Whether the sum of a fleet's results is a result, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bolide import quantity
from bolide.fleet.clock import Offset
from bolide.fleet.wire import Description, Order
from bolide.load.verdict import ACHIEVED_SHARE, BUSY_SHARE, PROCESSOR, RUNNABLE_S_MIN, SHARE

Report = dict[str, Any]

LATE_S = 0.1
"""A load that starts later than this after the others is not a part of the same load."""
LATE_SHARE = 0.02
"""The same as a share of a short load, of which it would be a large part."""
LATE_S_MIN = 0.02
"""Less than this is not required of any load."""
DRIFT_SHARE = 500e-6
"""By what share of the time clocks may move apart: the kernel slews one by at most that, and their
oscillators differ by less."""
WAITED_SHARE = 0.25
"""From this share of the time in which it waited for a processor, an agent was slowed by others."""


class Reason(NamedTuple):
    """Why a result is not valid: lost, late, ended, processor or share, and a sentence."""

    kind: str
    text: str


@dataclass(slots=True)
class Member:
    """An agent of a run, and what became of it."""

    address: str
    description: Description
    offset: Offset
    order: Order | None = None
    offset_after: Offset | None = None
    report: Report | None = None
    ended: str = ""
    """At what, or why, the agent itself ended the load."""
    target: str = ""
    """The address of the server that it loaded."""
    unchecked: str = ""
    """Why its clock was not read again after the run."""
    lost: str = ""
    """Why it is not part of the run any more."""
    heard_s: float = 0.0
    """When it responded last, in the coordinator's monotonic time."""
    has_refused: bool = False
    """It is lost because it has no such run, or has left: nothing can be fetched from it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.description.name

    @property
    def start_late_ns(self) -> float | None:
        """How late its load started; None if it did not start."""
        late_us: float | None = self.report["start_late_us"] if self.report else None
        return None if late_us is None else late_us * 1e3


@dataclass(frozen=True, slots=True)
class Skew:
    """The time between the first and the last start, with its uncertainty."""

    between_ns: float
    uncertainty_ns: float


def skew(members: Iterable[Member]) -> Skew | None:
    """Return how far the starts were apart; None if fewer than two agents have started."""
    started = [each for each in members if each.start_late_ns is not None]
    if len(started) < 2:
        return None
    lates = [each.start_late_ns or 0.0 for each in started]
    uncertain = sorted((each.offset.uncertainty_ns for each in started), reverse=True)
    return Skew(max(lates) - min(lates), float(sum(uncertain[:2])))


def reasons(members: Sequence[Member], *, was_interrupted: bool = False) -> list[Reason]:
    """Return why the result of a fleet is not valid; empty if it is."""
    lost = (each for each in members if each.lost)
    found = [Reason("lost", f"agent {each.name} was lost: {each.lost}") for each in lost]
    there = [each for each in members if each.report is not None]
    checks: dict[str, Callable[[Member], str]]
    checks = {"late": _late, "ended": _ended, PROCESSOR: _busy}
    if not was_interrupted:
        checks[SHARE] = _short
    for kind, check in checks.items():
        found += [Reason(kind, text) for each in there if (text := check(each))]
    return found


def late_s_max(order: Order | None) -> float:
    """Return how late the load of an order may start, and how well clocks have to be known."""
    length_s = order.length_s if order else None
    if length_s is None:
        return LATE_S
    return min(LATE_S, max(LATE_S_MIN, LATE_SHARE * length_s))


def _late(member: Member) -> str:
    if member.order is not None and member.order.own_requests == 0:
        return ""
    late_ns, most_ns = member.start_late_ns, late_s_max(member.order) * 1e9
    if late_ns is None:
        return f"agent {member.name} did not start"
    if late_ns > most_ns:
        return f"agent {member.name} started {_time(late_ns)} late"
    if member.offset.uncertainty_ns > most_ns:
        return (
            f"the clock of agent {member.name} is known only to "
            f"{_time(member.offset.uncertainty_ns)}: its messages take too long"
        )
    before, after = member.offset, member.offset_after
    if after is not None:
        moved_ns, drift_ns = before.apart_ns(after), DRIFT_SHARE * (after.at_ns - before.at_ns)
        if moved_ns > most_ns + drift_ns:
            return f"the clock of agent {member.name} moved by {_time(moved_ns)} during the run"
    if member.unchecked and not member.lost:
        return f"the clock of agent {member.name} was not read after the run: {member.unchecked}"
    return ""


def _ended(member: Member) -> str:
    return f"agent {member.name} ended the load {member.ended}" if member.ended else ""


def _busy(member: Member) -> str:
    """Detect a generator that had no time left, or no processor.

    One thread may work most while another one waits most: each share is the greatest of its own. A
    thread that never sleeps always works, but it does not have to wait for a processor.
    """
    report, order = member.report, member.order
    if report is None:
        return ""
    worked, waited = report["generator_cpu"] or 0.0, report.get("generator_waited") or 0.0
    is_sleepless = order is not None and order.is_sleepless
    if worked >= BUSY_SHARE and not is_sleepless:
        return (
            f"agent {member.name} was CPU-bound: its busiest thread worked {worked:.0%} of the time"
        )
    wanted = 0.0 if is_sleepless else report["generator_runnable"] or 0.0
    is_slowed = waited >= WAITED_SHARE or wanted >= BUSY_SHARE
    if not is_slowed or report["seconds"] < RUNNABLE_S_MIN:
        return ""
    if waited < WAITED_SHARE:
        text = f"its busiest thread worked {worked:.0%} of the time, and waited for a processor"
        return f"agent {member.name} was CPU-bound: {text} {waited:.0%}"
    return (
        f"agent {member.name} was CPU-bound: other processes had its processors, for which one of "
        f"its threads waited {waited:.0%} of the time"
    )


def _short(member: Member) -> str:
    """Detect an agent that did less than its share of the load."""
    report, order = member.report, member.order
    if report is None or order is None:
        return ""
    share, is_due = report["achieved_share"], report["offered_per_s"] != 0
    if share is not None and share < ACHIEVED_SHARE and is_due:
        return (
            f"agent {member.name} achieved only {share:.1%} of its "
            f"{report['offered_per_s']:,.0f} requests/s"
        )
    held = report["connections_max"]
    is_whole = order.is_persistent and not order.stages and order.requests_total is None
    if share is None and is_whole and held < ACHIEVED_SHARE * order.own_connections:
        return f"agent {member.name} had only {held:,} of its {order.own_connections:,} connections"
    return ""


def _time(ns: float) -> str:
    return quantity.latency_text(ns / 1e3)
