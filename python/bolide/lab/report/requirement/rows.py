"""The table of what must be reached, for terminal, page and Markdown."""

from __future__ import annotations

import math
from functools import partial
from statistics import median

from bolide.lab.record.schema import Requirement
from bolide.lab.report import quantity
from bolide.lab.report.requirement.judgement import Judgement, judged
from bolide.lab.report.summary import Figure, Result
from bolide.lab.report.table import Cell, Line, Table

TITLE = "What must be reached"
COLUMNS = [
    "row",
    "requests/s",
    "against",
    "requests/s",
    "bar",
    "measured",
    "range or interval",
    "result",
]
NOTE = (
    "A ratio is taken between the same turns. A round, which starts the servers once, counts as one"
    " value: the median of its turns. Rows that say so compare requests per second"
    " of the server's processor time: it is what the row is about, or the generator was the limit"
    " of both servers, so their rates say nothing."
)


def tables(result: Result) -> list[tuple[str, Table]]:
    """Return the table of requirements with its caption; none without requirements."""
    found = judged(result)
    return [(TITLE, Table(COLUMNS, [_line(each) for each in found], {}, NOTE))] if found else []


def _line(each: Judgement) -> Line:
    wanted, value = each.requirement, each.value
    shown = partial(_shown, is_bytes=not wanted.against)
    limit = wanted.at_least if wanted.at_least is not None else wanted.at_most
    sign = "≥" if wanted.at_least is not None else "≤"
    ends = ""
    if value is not None and value.low is not None and value.high is not None:
        ends = f"{shown(value.low)} to {shown(value.high)}"
    trials = [trial for side in (each.own, each.other) if side for trial in side.trials]
    noisy = sum(trial.verdict == "noisy" for trial in trials)
    remarks = [each.remark, f"{noisy} of {len(trials)} turns noisy" if noisy else ""]
    remarks += [_lost(side) for side in (each.own, each.other) if side and side.valid]
    kind = "bad" if each.outcome in ("below", "not measured") else ""
    cells = [
        Cell(wanted.title, kind="contestant"),
        _cell_of(each.own, wanted),
        Cell(wanted.against),
        _cell_of(each.other, wanted),
        Cell("" if limit is None else f"{sign} {shown(limit)}", limit, kind="num"),
        Cell(_measured(each), value and value.middle, kind="num"),
        Cell(ends, kind="num", under=value.label if value else ""),
        Cell(each.outcome, kind=kind, under="; ".join(each for each in remarks if each)),
    ]
    return Line(cells, wanted.contestant)


def _lost(figure: Figure) -> str:
    lost = len(figure.trials) - len(figure.valid)
    return (
        f"{figure.contestant.name} failed in {lost} of {len(figure.trials)} turns" if lost else ""
    )


def _cell_of(figure: Figure | None, wanted: Requirement) -> Cell:
    """Return the rate of a side, also in bytes; of a timed application, both times per request."""
    if figure is None or figure.rate is None or not wanted.against:
        return Cell("", kind="num")
    if wanted.measure == "own time":
        own = median(each.own_us or 0.0 for each in figure.valid)
        application = median(each.application_us or 0.0 for each in figure.valid)
        return Cell(f"{own:.1f} us", own, kind="num", under=f"application {application:.1f} us")
    if wanted.measure == "bytes":
        per_s = median(each.bytes_per_s or 0.0 for each in figure.valid)
        return Cell(f"{quantity.size(per_s)}/s", per_s, kind="num")
    return Cell(quantity.count(figure.rate.middle), figure.rate.middle, kind="num")


def _measured(each: Judgement) -> str:
    """Return what was measured, rounded away from the bar that it is below."""
    if each.value is None:
        return ""
    middle = each.value.middle
    if each.requirement.against and each.outcome == "below":
        down = each.requirement.at_least is not None
        middle = (math.floor(middle * 100) if down else math.ceil(middle * 100)) / 100
    return _shown(middle, is_bytes=not each.requirement.against)


def _shown(value: float, *, is_bytes: bool) -> str:
    return quantity.size(round(value)) if is_bytes else f"{value:.2f}"
