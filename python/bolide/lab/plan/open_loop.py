"""The open-loop part of a study: latency at shares of a maximum, and the highest rate that is met.

The maxima are measured in the same race, by the trials of one workload: a contestant's own, and the
lowest of all, which every contestant can serve.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Trial, Workload
from bolide.lab.record.validity import valid_of

TOOL = "bolide"
"""The only tool whose latencies count from the moment at which a request was due."""
SEARCH_START_SHARE = 0.5
"""Share of the contestant's maximum at which a search starts."""
DIGITS = 3

Share: TypeAlias = Annotated[float, Meta(gt=0, le=2)]


class OpenLoop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table [open_loop] of a study's file."""

    of: str
    """The workload that measures the maxima, by `bolide load`; its connections are used."""
    shares: Annotated[tuple[Share, ...], Meta(min_length=1)] = (0.25, 0.5, 0.75, 0.9)
    find: str = "p99 < 10ms"
    """Condition of the search for the highest rate; "" for none."""
    rounds: Annotated[int, Meta(ge=1, le=1000)] = 3
    duration_s: Annotated[float, Meta(ge=0.001, le=86_400)] = 3.0
    find_duration_s: Annotated[float, Meta(ge=0.001, le=86_400)] = 2.0
    """Duration of each trial of the search."""
    contestants: tuple[str, ...] = ()
    """Contestants that run it; by default those of the workload."""


def workloads(table: OpenLoop, base: Workload) -> list[Workload]:
    """Return the workloads of an open-loop part; `base` is the one that measures the maxima."""
    alike = msgspec.structs.replace(
        base,
        requests_total=None,
        duration_s=table.duration_s,
        rounds=table.rounds,
        is_quick=False,
        maximum=base.name,
        contestants=table.contestants or base.contestants,
    )
    kinds: tuple[Literal["own", "common"], ...] = ("own", "common")
    found = [
        msgspec.structs.replace(
            alike, name=f"open-{kind}{round(share * 100)}-{TOOL}", rate_of=kind, rate_share=share
        )
        for kind in kinds
        for share in table.shares
    ]
    if table.find:
        name, seconds = f"find-{TOOL}", table.find_duration_s
        search = msgspec.structs.replace(alike, name=name, finds=table.find, rate_of="own")
        found.append(msgspec.structs.replace(search, duration_s=seconds, rounds=1))
    return found


def closed(workload: Workload) -> Workload:
    """Return the workload that measures the maxima of one of an open loop, but for its duration."""
    return msgspec.structs.replace(
        workload, name=workload.maximum, maximum="", rate_of="", rate_share=None, finds=""
    )


def maxima(trials: Iterable[Trial], workload: Workload) -> dict[str, float]:
    """Return the median rate of each contestant that has a figure at a workload.

    It has one by the rule of the report, so that each maximum is a rate in its table: a single
    round that did not fail would set the common rate of all contestants.
    """
    found: dict[str, dict[int, Trial]] = defaultdict(dict)
    for each in trials:
        if each.workload == workload.name:
            found[each.contestant][each.round] = each
    valid = {name: valid_of(rounds.values(), workload) for name, rounds in found.items()}
    return {
        name: median(each.requests_per_s or 0.0 for each in trials)
        for name, trials in valid.items()
        if trials
    }


def with_rate(slot: Slot, maxima: Mapping[str, float]) -> Slot | None:
    """Return a slot with the rate that follows from the maxima; None if its maximum is unknown."""
    workload = slot.workload
    own = maxima.get(slot.contestant.name)
    if own is None:
        return None
    most = min(maxima.values()) if workload.rate_of == "common" else own
    rate = _rounded(most * (workload.rate_share or SEARCH_START_SHARE))
    return Slot(slot.round, msgspec.structs.replace(workload, rate_per_s=rate), slot.contestant)


def _rounded(rate: float) -> float:
    """Round to three digits and to a whole number, at least one request per second."""
    return max(1.0, float(round(float(f"{rate:.{DIGITS}g}"))))
