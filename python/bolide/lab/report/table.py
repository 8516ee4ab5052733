"""The league table of a workload, as rows of cells for HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from bolide.lab.report import quantity, svg
from bolide.lab.report.summary import Figure, Result
from bolide.lab.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text, its sort key, its tooltip."""

    text: str
    value: float | None = None
    title: str = ""
    kind: str = ""
    """CSS classes: contestant, num, bad, mark, quiet, struck."""
    under: str = ""
    """A second, smaller line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row; `name` is the contestant's name for the filter, "" if none."""

    cells: list[Cell]
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows; `hints` explain headings, the note is below the table."""

    columns: list[str]
    lines: list[Line]
    hints: dict[str, str] = field(default_factory=dict)
    note: str = ""


LEAGUE = [
    "contestant",
    "requests/s",
    "of ceiling",
    "p50",
    "p99",
    "max",
    "CPU/request",
    "memory",
    "errors",
    "limit",
]

HINTS = {
    "requests/s": "correct responses per second: the median over rounds, and its 95 % interval",
    "of ceiling": "the ratio to the fixed-response baseline in the same rounds",
    "p50": "over the responses of all rounds, if the tool has histograms",
    "p99": "over the responses of all rounds, if the tool has histograms",
    "max": "the maximum of all rounds",
    "CPU/request": "processor time of the server's process tree per correct response",
    "memory": "peak memory of the process tree, shared pages counted once (PSS)",
    "errors": "failed requests of all rounds, by class",
    "limit": "what was busy: the server, the generator, or neither; noisy and unstable rounds."
    " The tooltip shows what both used",
}

TOOL_LIMITED = (
    "The tool limited the ceiling, so no server can appear faster with it. About 100 % of the"
    " ceiling means that a server is not slower than the tool; the order of such servers is not"
    " meaningful."
)

QUEUE_FULL = (
    "The accept queue overflowed: some clients waited for a connection while the others were served"
    " faster (overflows per round):"
)


def league(result: Result, workload: str) -> Table:
    """Return the table of a workload, the highest rate first, failures last."""
    lines = [_line(result, figure) for figure in result.of(workload)]
    return without_empty(Table(LEAGUE, lines, HINTS, _note(result, workload)))


def _note(result: Result, workload: str) -> str:
    """Return notes on all figures, and on servers whose accept queue overflowed."""
    ceiling = result.ceiling(workload)
    notes = [TOOL_LIMITED] if ceiling and ceiling.verdict == "generator-bound" else []
    measured = [each for each in result.of(workload) if each.rate]
    full = [f"{each.contestant.title} ({each.overflows:,})" for each in measured if each.overflows]
    if full:
        notes.append(f"{QUEUE_FULL} {', '.join(full)}.")
    return " ".join(notes)


def without_empty(table: Table) -> Table:
    """Remove columns in which every cell is a dash."""
    kept = [
        place
        for place in range(len(table.columns))
        if any(line.cells[place].text != quantity.NONE for line in table.lines)
    ]
    lines = [Line([line.cells[n] for n in kept], line.name, line.kind) for line in table.lines]
    return Table([table.columns[n] for n in kept], lines, table.hints, table.note)


def _line(result: Result, figure: Figure) -> Line:
    name, kind = figure.contestant.name, svg.place(figure.contestant)
    about = [figure.contestant.interface, figure.contestant.version or ""]
    title = Cell(
        figure.contestant.title,
        title=figure.contestant.settings,
        kind="contestant",
        under=" ".join(each for each in about if each not in ("", "none", "own")),
    )
    latency = figure.latency_us
    times = [
        Cell(quantity.time_us(latency.get(rank)), latency.get(rank), kind="num")
        for rank in ("p50", "p99", "max")
    ]
    cpu = figure.cpu_us_per_request
    cells = [
        title,
        rate_cell(figure),
        ceiling_cell(result, figure),
        *times,
        Cell(quantity.time_us(cpu and cpu.middle), cpu and cpu.middle, kind="num"),
        Cell(quantity.size(figure.memory_bytes), figure.memory_bytes, kind="num"),
        errors_cell(figure),
        _limit_cell(figure),
    ]
    return Line(cells, name, kind if figure.valid else f"{kind} failed")


def rate_cell(figure: Figure) -> Cell:
    """Return correct responses per second with their interval, or why there are none."""
    rate = figure.rate
    if rate is None:
        why = figure.reasons[0] if figure.reasons else "no correct response"
        return Cell(figure.absence, None, why, "num bad", quantity.cut(why))
    by_round = ", ".join(quantity.count(value) for _, value in sorted(figure.by_round.items()))
    return Cell(
        quantity.count(rate.middle), rate.middle, f"rounds: {by_round}", "num", interval(rate)
    )


def interval(found: Interval) -> str:
    """Return the ends of an interval for a second line; a single round has none."""
    return "" if found.low is None else quantity.interval(found)


def ceiling_cell(result: Result, figure: Figure) -> Cell:
    """Return the share of the ceiling; the ceiling itself has none."""
    found = result.of_ceiling(figure)
    ends = quantity.interval(found)
    title = "" if ends == quantity.NONE or not found else _percent_interval(found.low, found.high)
    return Cell(quantity.share(found and found.middle), found and found.middle, title, "num")


def _percent_interval(low: float | None, high: float | None) -> str:
    return f"{quantity.share(low)} to {quantity.share(high)}"


def errors_cell(figure: Figure) -> Cell:
    """Return failed requests and their classes; unknown is a dash, none is 0."""
    if figure.failed is None:
        return Cell(quantity.NONE, None, "the tool does not report it", "num quiet")
    if not figure.failed:
        return Cell("0", 0, "", "num quiet")
    classes = ", ".join(f"{quantity.count(n)} {name}" for name, n in figure.errors.most_common())
    part = quantity.share(figure.failed_share) if figure.failed_share else ""
    return Cell(quantity.count(figure.failed), figure.failed, classes, "num bad", part)


def _limit_cell(figure: Figure) -> Cell:
    marks = figure.marks
    verdict = figure.verdict.removesuffix("-bound")
    kind = "mark bad" if verdict in ("failed", "errors") else "mark"
    under = ", ".join(each for each in marks if each != verdict)
    return Cell(verdict, None, "\n".join([*figure.reasons, *_uses(figure)]), kind, under)


def _uses(figure: Figure) -> list[str]:
    """Return what server and generator used, as far as known."""
    server = [
        (quantity.small(figure.switches_per_request), "context switches/request"),
        (quantity.share(figure.server_cpu), "of a processor"),
    ]
    generator = [
        (quantity.small(figure.generator_switches_per_request), "context switches/request"),
        (quantity.share(figure.generator_cpu), "of a processor by its busiest thread"),
        (quantity.size(figure.generator_memory_bytes), "of memory"),
    ]
    found = []
    for user, uses in (("server", server), ("generator", generator)):
        known = [f"{value} {what}" for value, what in uses if value != quantity.NONE]
        if known:
            found.append(f"{user}: {', '.join(known)}")
    return found
