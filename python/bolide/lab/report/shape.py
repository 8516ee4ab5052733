"""A study in its document's own table: the published figure, ours beside it, both ratios.

A study over many numbers of connections has a table for each of five figures, one of contestants
that are published on two event loops has these as rows; all others have a row for each server and
columns for each load.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.lab.report import words
from bolide.lab.report.summary import Figure, Group, Result
from bolide.lab.report.table import Cell, Line, Table, without_empty
from bolide.lab.results import Contestant, Published

LOOPS = {"uvloop": "-uvloop", "asyncio": ""}
"""How a contestant's name ends, by event loop."""
LEVELS_MIN = 4
"""Numbers of connections from which on a study is one over connections."""


def tables(result: Result) -> list[tuple[str, Table]]:
    """Give the document's tables with their captions; none where nothing is published."""
    if not result.study.published:
        return []
    if _stems(result):
        return [*_loops(result), ("Everybody", _by_load(result))]
    if any(len(group.workloads) >= LEVELS_MIN for group in result.groups):
        return _levels(result)
    return [("", _by_load(result))]


def objections(result: Result) -> list[tuple[Published, str]]:
    """Give the published figures that do not hold, with the name of their contestant."""
    titles = {each.name: each.title for each in result.contestants}
    return [
        (each, titles.get(each.contestant, each.contestant))
        for each in result.study.published
        if each.does_not_hold
    ]


def remarks(result: Result) -> list[str]:
    """Say what our own figures show about published ones, as far as figures alone can tell."""
    found = []
    for each in result.study.published:
        figure = result.figures.get((each.workload, each.contestant))
        if figure is None or each.requests_per_s is None:
            continue
        if not figure.valid:
            why = figure.reasons[0] if figure.reasons else "no right answer"
            found.append(
                f"{figure.contestant.title}: {words.count(each.requests_per_s)} requests/s are"
                f" published for {each.workload}; here it gave no right answer ({why})"
            )
        elif figure.verdict == "generator-bound":
            found.append(
                f"{figure.contestant.title} at {each.workload}: the generator was the limit here,"
                " so ours is a lower bound of what the server can do"
            )
    return found


def _by_load(result: Result) -> Table:
    """Make a row for each contestant, and three columns for each load: theirs, ours, ratios."""
    told = {each.workload for each in result.study.published}
    measured = {name for name, _ in result.figures}
    workloads = [
        each
        for group in result.groups
        for each in _shown(group, told)
        if each in told or not told & measured
    ]
    columns = ["contestant"]
    for each in workloads:
        columns += [f"{each}: published", f"{each}: here", "here/published", "of ceiling"]
    lines = [
        Line([Cell(who.title, kind="who"), *_cells(result, who, workloads)], who.name)
        for who in _in_order(result, workloads)
    ]
    return without_empty(Table(columns, lines))


def _shown(group: Group, told_of: set[str]) -> list[str]:
    """Give the workloads of a group: those that are published, or its ends if it has many."""
    names = [each.name for each in group.workloads]
    told = [each for each in names if each in told_of]
    return told or (names if len(names) <= 3 else [names[0], names[-1]])


def _in_order(result: Result, workloads: list[str]) -> list[Contestant]:
    """Put the document's own servers first, as it lists them, then all others."""
    order = list(dict.fromkeys(each.contestant for each in result.study.published))
    places = {name: place for place, name in enumerate(order)}
    best = (
        {f.contestant.name: n for n, f in enumerate(result.of(workloads[0]))} if workloads else {}
    )
    return sorted(
        result.contestants,
        key=lambda who: (places.get(who.name, len(places)), best.get(who.name, 999)),
    )


def _cells(result: Result, who: Contestant, workloads: list[str]) -> list[Cell]:
    found = []
    for name in workloads:
        published = result.published(name, who.name)
        theirs = published.requests_per_s if published and not published.does_not_hold else None
        figure = result.figures.get((name, who.name))
        found += [_theirs(published), here(figure), _ratio(figure, theirs), _of(result, figure)]
    return found


def _theirs(published: Published | None) -> Cell:
    if published is None or published.requests_per_s is None:
        return Cell(words.NONE, None, kind="num quiet")
    said = words.count(published.requests_per_s)
    if published.does_not_hold:
        return Cell(f"{said} *", None, published.does_not_hold, "num struck")
    under = "" if published.latency_ms is None else f"{published.latency_ms:g} ms"
    return Cell(said, published.requests_per_s, published.note, "num", under)


def here(figure: Figure | None) -> Cell:
    """Give our figure; a failure says so, and what was not run is a dash."""
    if figure is None:
        return Cell(words.NONE, None, "not run", "num quiet")
    if figure.rate is None:
        why = figure.reasons[0] if figure.reasons else "no right answer"
        return Cell("failed", None, why, "num bad")
    return Cell(
        words.count(figure.rate.middle), figure.rate.middle, words.interval(figure.rate), "num"
    )


def _ratio(figure: Figure | None, theirs: float | None) -> Cell:
    rate = figure.rate if figure else None
    value = rate.middle / theirs if rate and theirs else None
    return Cell(words.times(value), value, "another machine, so no judgement", "num quiet")


def _of(result: Result, figure: Figure | None) -> Cell:
    found = result.of_ceiling(figure) if figure else None
    return Cell(words.share(found and found.middle), found and found.middle, kind="num quiet")


Pick = Callable[[Figure], Cell]


def _figure_us(figure: Figure, rank: str) -> Cell:
    value = figure.latency_us.get(rank)
    return Cell(words.time_us(value), value, kind="num")


BLOCKS: dict[str, Pick] = {
    "Requests per second": here,
    "Latency (p50)": lambda figure: _figure_us(figure, "p50"),
    "Processors busy": lambda figure: Cell(
        words.share(figure.server_cpu), figure.server_cpu, kind="num"
    ),
    "Memory": lambda figure: Cell(words.size(figure.memory_bytes), figure.memory_bytes, kind="num"),
    "Errors": lambda figure: Cell(
        words.count(figure.failed), figure.failed, kind="num bad" if figure.failed else "num"
    ),
}
"""The five blocks of the study of WSGI servers."""


def _levels(result: Result) -> list[tuple[str, Table]]:
    found = [("", _by_load(result))]
    for group in result.groups:
        if len(group.workloads) < 2:
            continue
        columns = ["contestant", *(f"{each.connections:,}" for each in group.workloads)]
        for title, pick in BLOCKS.items():
            lines = [
                Line(
                    [Cell(who.title, kind="who"), *_level_cells(result, who, group, pick)], who.name
                )
                for who in _in_order(result, [group.workloads[0].name])
            ]
            found.append((f"{title} · {group.title}", Table(columns, lines)))
    return found


def _level_cells(result: Result, who: Contestant, group: Group, pick: Pick) -> list[Cell]:
    figures = (result.figures.get((each.name, who.name)) for each in group.workloads)
    return [pick(each) if each else Cell(words.NONE, kind="num quiet") for each in figures]


def _loops(result: Result) -> list[tuple[str, Table]]:
    """Make the 3 x 2 table for each load."""
    stems = _stems(result)
    titles = {each.name: each.title for each in result.contestants}
    columns = ["", *(_stem_title(titles.get(f"{stem}-uvloop", stem)) for stem in stems)]
    found = []
    for group in result.groups:
        for each in group.workloads:
            lines = [
                Line([Cell(loop), *(_loop_cell(result, each.name, stem + end) for stem in stems)])
                for loop, end in LOOPS.items()
            ]
            found.append((f"{each.name}: here (published)", Table(columns, lines)))
    return found


def _stems(result: Result) -> list[str]:
    """Give the contestants that the document has on both loops."""
    told = list(dict.fromkeys(each.contestant for each in result.study.published))
    return [name for name in told if f"{name}-uvloop" in told]


def _stem_title(title: str) -> str:
    for word in (" (uvloop)", " on uvloop", ", uvloop", " uvloop"):
        title = title.replace(word, "")
    return words.cut(title, 40)


def _loop_cell(result: Result, workload: str, name: str) -> Cell:
    figure = result.figures.get((workload, name))
    ours, published = here(figure), result.published(workload, name)
    of = result.of_ceiling(figure) if figure else None
    under = []
    if published and published.requests_per_s:
        under.append(f"({words.count(published.requests_per_s)})")
        if figure and figure.rate:
            under.append(words.times(figure.rate.middle / published.requests_per_s))
    if of:
        under.append(f"{words.share(of.middle)} of the ceiling")
    return Cell(ours.text, ours.value, ours.title, ours.kind, ", ".join(under))
