"""A study in the form of its document's table: published figure, measured figure, both ratios.

If contestants are published on two event loops, the loops are rows. Otherwise there is a row for
each server, with columns for each load.
"""

from __future__ import annotations

import re
from dataclasses import replace

from bolide.lab.record import service
from bolide.lab.record.schema import Contestant, Published, demand_of
from bolide.lab.report import quantity
from bolide.lab.report.summary import Figure, Result
from bolide.lab.report.table import (
    Cell,
    Line,
    Table,
    about_saturation,
    above_ceiling,
    ceiling_cell,
    latency_text,
    plain_rate_cell,
    without_empty,
)

LOOPS = ("uvloop", "asyncio")
"""The event loops, in the order of the rows."""
_DIGITS = re.compile(r"[\d.,]+")


def tables(result: Result) -> list[tuple[str, Table]]:
    """Return the document's tables with captions; none if nothing published was run."""
    if programs := _programs(result):
        return _loops(result, programs)
    reported = {each.workload for each in result.study.published}
    workloads = [w.name for group in result.groups for w in group.workloads if w.name in reported]
    return [("", _by_load(result, workloads))] if workloads else []


def objections(result: Result) -> list[tuple[Published, str]]:
    """Return the published figures that are invalid, with the name of their contestant."""
    titles = {each.name: each.title for each in result.contestants}
    return [
        (each, titles.get(each.contestant, each.contestant))
        for each in result.study.published
        if objection(result, each)
    ]


def objection(result: Result, published: Published) -> str:
    """Return why a published figure is invalid, or contradicts itself; "" if it is valid."""
    if published.does_not_hold:
        return published.does_not_hold
    workloads = (each for each in result.study.workloads if each.name == published.workload)
    return next((service.impossible(published, each) for each in workloads), "")


def remarks(result: Result) -> list[str]:
    """Return which published figures cannot be compared with ours, and why."""
    found = []
    for workload in dict.fromkeys(each.workload for each in result.study.published):
        rates = {
            each.contestant: each.requests_per_s
            for each in result.study.published
            if each.workload == workload and each.requests_per_s is not None
        }
        figures = [result.figures.get((workload, name)) for name in rates]
        measured = [each for each in figures if each]
        failed = [each for each in measured if not each.valid]
        causes = {_DIGITS.sub("", each.reason) for each in measured}
        if len(failed) == len(measured) > 1 and len(causes) == 1:
            found.append(
                f"{workload}: none of {len(measured)} published figures could be measured here"
                f" ({failed[0].contestant.title}: {failed[0].reason})"
            )
            continue
        found += [
            f"{each.contestant.title}: {quantity.count(rates[each.contestant.name])} requests/s are"
            f" published for {workload}; here it has no figure ({each.reason})"
            for each in failed
        ]
        found += [
            f"{each.contestant.title} at {workload}: the generator was the limit here,"
            " so ours is a lower bound for the server"
            for each in measured
            if each.valid and each.verdict == "generator-bound"
        ]
    return found


def sentences(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return remarks on published figures by heading: the contestant, "" if none, and the text."""
    lost = []
    for each, title in objections(result):
        rate = f"{quantity.count(each.requests_per_s)} requests/s"
        lost.append((title, f", {rate} ({each.workload}): {objection(result, each)}"))
    found = {
        "Invalid published figures": lost,
        "What cannot be compared": [("", each) for each in remarks(result)],
    }
    return [(heading, lines) for heading, lines in found.items() if lines]


def _by_load(result: Result, workloads: list[str]) -> Table:
    """Return a row for each contestant, with columns for each load: published, here, ratios."""
    columns, hints = ["contestant"], {}
    for each in workloads:
        columns += [f"{each}: published", f"{each}: here", "here/published", "of ceiling"]
        if _has_latency(result, each):
            hints[f"{each}: here"] = "the second line is the mean latency, or p50 if it says so"
    lines = [
        Line(
            [Cell(contestant.title, kind="contestant"), *_cells(result, contestant, workloads)],
            contestant.name,
        )
        for contestant in _in_order(result)
    ]
    names = {each.name for each in lines}
    figures = [each for (_, name), each in result.figures.items() if name in names]
    figures = [each for each in figures if each.workload.name in workloads]
    timed = (each for each in figures if _has_latency(result, each.workload.name))
    notes = (above_ceiling(result, figures), about_saturation(timed))
    note = " ".join(each for each in notes if each)
    run = [each for each in lines if any(cell.text != quantity.NONE for cell in each.cells[1:])]
    places = ("", *(name for each in workloads for name in ("", each, each, each)))
    return without_empty(Table(columns, run, hints, note, workloads=places))


def _in_order(result: Result) -> list[Contestant]:
    """Return the document's servers in its order, then Bolide's; the league table has all."""
    order = list(dict.fromkeys(each.contestant for each in result.study.published))
    places = {name: place for place, name in enumerate(order)}
    found = [
        contestant
        for contestant in result.contestants
        if contestant.name in places or (contestant.is_bolide and not contestant.copy_of)
    ]
    return sorted(found, key=lambda contestant: places.get(contestant.name, len(places)))


def _has_latency(result: Result, workload: str) -> bool:
    return any(
        each.latency_ms is not None for each in result.study.published if each.workload == workload
    )


def _cells(result: Result, contestant: Contestant, workloads: list[str]) -> list[Cell]:
    found = []
    for name in workloads:
        published, figure = (
            result.published(name, contestant.name),
            result.figures.get((name, contestant.name)),
        )
        has_latency = _has_latency(result, name)
        why = objection(result, published) if published else ""
        found += [_theirs(published, why, has_latency=has_latency)]
        found += [_ours(figure, has_latency=has_latency)]
        found += [_ratio(figure, None if why else published)]
        found += [_of(result, figure)]
    return found


def _theirs(published: Published | None, why: str, *, has_latency: bool) -> Cell:
    if published is None or published.requests_per_s is None:
        return Cell(quantity.NONE, None, kind="num quiet")
    rate = quantity.count(published.requests_per_s)
    under = quantity.time_us(_theirs_us(published)) if has_latency else ""
    if why:
        return Cell(f"{rate} *", None, why, "num struck", under)
    return Cell(rate, published.requests_per_s, published.note, "num", under)


def _theirs_us(published: Published) -> float | None:
    return None if published.latency_ms is None else published.latency_ms * 1000


def _ours(figure: Figure | None, *, has_latency: bool) -> Cell:
    """Return our rate, with our latency below it if the document publishes one."""
    found = plain_rate_cell(figure)
    if figure is None or figure.rate is None or not has_latency:
        return found
    value, rank = _ours_us(figure)
    latency = f"{rank} {latency_text(figure, value)}".removeprefix("mean ")
    return replace(found, under=", ".join(each for each in (latency, found.under) if each))


def _ours_us(figure: Figure) -> tuple[float | None, str]:
    """Return the latency to compare with the document's, which are means, and its name."""
    mean = figure.latency_us.get("mean")
    p50 = figure.latency_us.get("p50")
    return (p50, "p50") if mean is None and p50 is not None else (mean, "mean")


def _ratio(figure: Figure | None, published: Published | None) -> Cell:
    title = "published on another machine, so not a judgement"
    theirs = published.requests_per_s if published else None
    if figure is None or figure.rate is None or published is None or theirs is None:
        return Cell(quantity.NONE, None, title, "num quiet")
    value, theirs_us = figure.rate.middle / theirs, _theirs_us(published)
    under = ""
    if theirs_us is not None:
        ours_us = _ours_us(figure)[0]
        under = quantity.times(None if ours_us is None else ours_us / theirs_us)
    return Cell(quantity.times(value), value, title, "num quiet", under)


def _of(result: Result, figure: Figure | None) -> Cell:
    found = ceiling_cell(result, figure) if figure else Cell(quantity.NONE)
    return replace(found, kind="num quiet")


def _loops(result: Result, programs: dict[str, dict[str, str]]) -> list[tuple[str, Table]]:
    """Return the table of programs by loop for each load: the document's, and similar ones.

    Similar loads use another tool or another number of threads; nothing was published for them.
    """
    columns = ["", *(quantity.cut(each, 40) for each in programs)]
    own = {each.workload for each in result.study.published}
    alike = {demand_of(each) for each in result.study.workloads if each.name in own}
    found = []
    for each in (each for group in result.groups for each in group.workloads):
        if demand_of(each) not in alike:
            continue
        lines = []
        names = [each[loop] for loop in LOOPS for each in programs.values()]
        for loop in LOOPS:
            cells = [_loop_cell(result, each.name, names[loop]) for names in programs.values()]
            lines.append(Line([Cell(loop), *cells]))
        figures = (result.figures.get((each.name, name)) for name in names)
        note = above_ceiling(result, (figure for figure in figures if figure))
        beside = "" if each.name in own else ", a similar load: nothing is published for it"
        found.append((f"{each.name}{beside}", Table(columns, lines, {}, note, each.name)))
    return found


def _programs(result: Result) -> dict[str, dict[str, str]]:
    """Return the programs that the document has on all loops: the contestants by loop."""
    reported = list(dict.fromkeys(each.contestant for each in result.study.published))
    known = {each.name: each for each in result.contestants if each.program}
    found: dict[str, dict[str, str]] = {}
    for each in (known[name] for name in reported if name in known):
        found.setdefault(each.program, {})[each.loop] = each.name
    return {program: names for program, names in found.items() if names.keys() >= {*LOOPS}}


def _loop_cell(result: Result, workload: str, name: str) -> Cell:
    figure = result.figures.get((workload, name))
    ours, published = plain_rate_cell(figure), result.published(workload, name)
    of = result.of_ceiling(figure) if figure else None
    under = [ours.under] if ours.under else []
    if published and published.requests_per_s and not objection(result, published):
        under.append(f"published {quantity.count(published.requests_per_s)}")
        if figure and figure.rate:
            under.append(quantity.times(figure.rate.middle / published.requests_per_s))
    if of:
        under.append(f"{quantity.share(of.middle)} of the ceiling")
    return replace(ours, under=", ".join(under), contestant=name)
