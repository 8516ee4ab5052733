"""Which workloads need more rounds until their intervals are narrow (`--until`)."""

from __future__ import annotations

from dataclasses import dataclass

from bolide.lab.record.schema import Workload
from bolide.lab.report.summary import Figure, Result
from bolide.lab.stats.stopping import is_narrow, rounds_needed

ROUNDS_MAX = 50
"""No interval is worth more rounds."""


@dataclass(frozen=True)
class Need:
    """What is left to do."""

    workloads: list[Workload]
    """Those that need another round."""
    hopeless: list[str]
    """Figures that will not become that narrow, one sentence each."""


def need(result: Result, share: float) -> Need:
    """Return which workloads need another round, for intervals of a share to either side.

    All contestants of a workload are run in a round, so that ratios remain paired. These are not
    waited for: workloads with a number of rounds of their own, contestants without a figure, and
    those that would take more than ROUNDS_MAX rounds.
    """
    workloads, hopeless = [], []
    for workload in (each for each in result.study.workloads if each.rounds is None):
        wide = [
            each
            for each in result.of(workload.name)
            if each.valid and not is_narrow(_rates(each), share)
        ]
        hopes = [each for each in wide if _rounds(each, share) <= ROUNDS_MAX]
        if hopes:
            workloads.append(workload)
        hopeless += [_why(each, share) for each in wide if each not in hopes]
    return Need(workloads, hopeless)


def _rates(figure: Figure) -> list[float]:
    return [*figure.by_round.values()]


def _rounds(figure: Figure, share: float) -> int:
    return max(rounds_needed(_rates(figure), share), len(figure.trials) + 1)


def _why(figure: Figure, share: float) -> str:
    reach = figure.rate and figure.rate.reach
    so_far = f" (now {reach:.1%})" if reach is not None else ""
    return (
        f"{figure.contestant.name} at {figure.workload.name} will not be within {share:.1%}"
        f"{so_far}: that would take about {_rounds(figure, share)} rounds"
    )
