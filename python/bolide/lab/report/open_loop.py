"""The open loop of a study: latency from the intended start, at shares of a maximum.

`curves` has what a chart of latency against rate needs, `tables` the same as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bolide.lab.record.schema import Contestant, Workload
from bolide.lab.report import quantity
from bolide.lab.report.summary import ACHIEVED_SHARE_MIN, Figure, Result
from bolide.lab.report.table import NOISY, Cell, Line, Table
from bolide.lab.stats.interval import Interval

OTHER_WORK = "other work on these processors, so the server may do more"
"""What ended a search while the machine was not quiet."""
CAPTIONS = {
    "own": "p99 from the intended start, at shares of each contestant's own maximum",
    "common": "p99 from the intended start, at shares of the lowest maximum of all",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A contestant at one offered rate."""

    share: float
    offered_per_s: float
    achieved_per_s: float
    latency_us: dict[str, float | None]
    """Percentiles over the responses of the rounds in which the rate was served."""
    p99_us: Interval | None
    """The p99 of these rounds."""
    verdict: str
    is_served: bool
    """Whether the server kept up with the offered rate in most rounds."""
    lost: int = 0
    """Rounds in which it did not."""
    rounds: int = 1
    is_noisy: bool = False
    """Whether other work took processor time in a round."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of a contestant, from the lowest rate to the highest."""

    contestant: Contestant
    points: list[Point]


def curves(result: Result, rate_of: Literal["own", "common"]) -> list[Curve]:
    """Return a curve for each contestant with at least one point; one that failed is left out."""
    found: dict[str, Curve] = {}
    for workload in _workloads(result, rate_of):
        for (name, contestant), figure in result.open_loop.items():
            if name != workload.name or figure.rate is None or figure.offered_per_s is None:
                continue
            curve = found.setdefault(contestant, Curve(figure.contestant, []))
            curve.points.append(_point(figure, figure.rate.middle, figure.offered_per_s))
    return list(found.values())


def _point(figure: Figure, achieved_per_s: float, offered_per_s: float) -> Point:
    served = figure.of_served_rounds
    return Point(
        share=figure.workload.rate_share or 0.0,
        offered_per_s=offered_per_s,
        achieved_per_s=achieved_per_s,
        latency_us=served.latency_us,
        p99_us=served.over_rounds(lambda each: (each.latency_us or {}).get("p99")),
        verdict=figure.verdict,
        is_served=len(served.valid) > len(figure.trials) / 2,
        lost=len(figure.trials) - len(served.valid),
        rounds=len(figure.trials),
        is_noisy=figure.is_noisy,
    )


def searches(result: Result) -> list[Figure]:
    """Return the results of the searches for the highest rate, the highest first."""
    found = [each for each in result.open_loop.values() if each.workload.finds]
    return sorted(found, key=lambda each: -(each.rate.middle if each.rate else -1))


def tables(result: Result) -> list[tuple[str, Table]]:
    """Return the tables of a study's open loop with their captions; none if it was not run."""
    kinds: tuple[Literal["own", "common"], ...] = ("own", "common")
    found = [(CAPTIONS[kind], _table(result, kind)) for kind in kinds]
    if searched := searches(result):
        found.append((f"Highest rate with {searched[0].workload.finds}", _found(searched)))
    return [(caption, each) for caption, each in found if each.lines]


def _workloads(result: Result, rate_of: str) -> list[Workload]:
    every = [each for each in result.study.workloads if each.rate_of == rate_of]
    with_share = [each for each in every if each.rate_share is not None]
    return sorted(with_share, key=lambda each: each.rate_share or 0.0)


def _table(result: Result, rate_of: Literal["own", "common"]) -> Table:
    shares = [each.rate_share or 0.0 for each in _workloads(result, rate_of)]
    lines = []
    for curve in curves(result, rate_of):
        points = {each.share: each for each in curve.points}
        cells = [_cell(points.get(share)) for share in shares]
        lines.append(
            Line([Cell(curve.contestant.title, kind="contestant"), *cells], curve.contestant.name)
        )
    note = (
        "Below each latency: the offered rate, and the p99 of single rounds. A rate that was not"
        " served in most rounds has no latency; single rounds in which it was not do not count."
    )
    columns = ["contestant", *(quantity.share(each) for each in shares)]
    names = tuple(each.name for each in _workloads(result, rate_of))
    return Table(columns, lines, {}, note, workloads=("", *names))


def _cell(point: Point | None) -> Cell:
    if point is None:
        return Cell(quantity.NONE, kind="num quiet")
    under = f"{quantity.count(point.offered_per_s)}/s" + (f", {NOISY}" if point.is_noisy else "")
    if not point.is_served:
        share = quantity.share(point.achieved_per_s / point.offered_per_s)
        if point.achieved_per_s >= ACHIEVED_SHARE_MIN * point.offered_per_s:
            said = "the server did not keep up with this rate in the other rounds"
            count = f"{point.rounds - point.lost} of {point.rounds} rounds"
            return Cell(count, None, said, "num bad", under)
        if point.verdict == "generator-bound":
            said = "the generator did not keep up with this rate"
            return Cell(f"{share} sent", None, said, "num quiet", under)
        said = "the server did not keep up with this rate"
        return Cell(f"{share} served", None, said, "num bad", under)
    value = point.latency_us.get("p99")
    title = f"p50 {quantity.time_us(point.latency_us.get('p50'))}"
    if point.lost:
        title += f"; {point.lost} {'rounds were' if point.lost > 1 else 'round was'} not served"
    if (rounds := point.p99_us) and rounds.low is not None and rounds.high is not None:
        under += f", {quantity.time_us(rounds.low)} to {quantity.time_us(rounds.high)}"
    return Cell(quantity.time_us(value), value, title, "num", under)


def _found(searched: list[Figure]) -> Table:
    lines = []
    for each in searched:
        rate = each.rate.middle if each.rate else None
        why = _end_of(each)
        text = quantity.count(rate) if rate is not None else each.absence
        kind = "num" if rate is not None else "num bad"
        cells = [
            Cell(each.contestant.title, kind="contestant"),
            Cell(text, rate, why, kind, NOISY if each.is_noisy else ""),
            Cell(why),
        ]
        lines.append(Line(cells, each.contestant.name))
    columns = ["contestant", "requests/s", "what ended the search"]
    return Table(columns, lines, workload=searched[0].workload.name)


def _end_of(figure: Figure) -> str:
    """Return what ended a search; a limit is named only if the machine was quiet.

    The tool says it. The processor time of the trial is that of all rates that were tried, also of
    those that failed.
    """
    if figure.rate is not None and figure.verdict == "noisy":
        return OTHER_WORK
    said = [each for each in figure.reasons if figure.workload.finds in each]
    return (said or figure.reasons or [""])[0]
