"""The league table of a workload, as rows of cells for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bolide.lab.record import service
from bolide.lab.report import quantity
from bolide.lab.report.drawing import svg
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
    contestant: str = ""
    """Whose figure it is, if not that of the row's contestant."""


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
    workload: str = ""
    """The workload of all figures, "" if that depends on the column."""
    workloads: tuple[str, ...] = ()
    """The workload of each column's figures, "" for none."""

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has numbers, which are right-aligned."""
        return [
            any("num" in line.cells[n].kind for line in self.lines)
            for n in range(len(self.columns))
        ]


LEAGUE = [
    "contestant",
    "requests/s",
    "of ceiling",
    "p50",
    "p99",
    "max",
    "served",
    "CPU s/million",
    "J/million",
    "memory",
    "errors",
    "limit",
]

SATURATED = "†"
"""The mark of a latency that was measured at saturation."""
_AT_SATURATION = f"; {SATURATED}: at saturation"

HINTS = {
    "requests/s": "correct responses per second: the median over rounds; below it their range, or"
    " from 6 rounds on an exact interval",
    "of ceiling": "the median of the ratios to the fixed-response baseline, round by round",
    "p50": f"over the responses of all rounds, if the tool has histograms{_AT_SATURATION}",
    "p99": f"over the responses of all rounds, if the tool has histograms{_AT_SATURATION}",
    "max": f"the maximum of all rounds{_AT_SATURATION}",
    "served": "connections with at least one correct response in the least even round; below it the"
    " fewest and the most responses on one. If the tool does not count them: how many had a request"
    " in flight, rate times mean latency (Little's law); a tool that is busy itself lowers it",
    "CPU s/million": "processor seconds of the server's process tree per million correct responses",
    "J/million": "energy of all processors (server, load generator and everything else) per million"
    " correct responses, where the kernel shows it (RAPL)",
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

ABOVE_CEILING = (
    "More than 100 % of the ceiling: the tool limited both, the rounds were noisy, or the server"
    " needs fewer system calls for this load than the baseline, which sends each connection's"
    " responses on their own."
)

NOISY = "noisy"
"""The mark of a figure that was measured while other work took processor time."""

REASON_LETTERS_MAX = 120
"""Letters of a reason in a table; all of it is in the evidence."""

ROUNDS_ADDED = (
    "Rounds were added until intervals were narrow. Such an interval has the true median somewhat"
    " less often than stated: in 93 % of simulated races whose rounds varied by 3 %, in 88 % of"
    " those by 5 %."
)

LATENCY_DOUBT = (
    "* Rate times mean latency is more than 20 % away from the number of connections, so one of"
    " them is not what the tool reports."
)

SATURATION = (
    f"{SATURATED} At saturation: the server or the generator had no processor time left, so this is"
    " mostly the time in a queue as long as the number of connections. What a user waits below"
    " that, only the latency at given rates shows."
)

QUEUE_FULL = (
    "The accept queue overflowed: some clients waited for a connection while the others were served"
    " faster (overflows per round):"
)


def league(result: Result, workload: str) -> Table:
    """Return the table of a workload, the highest rate first, failures last."""
    lines = [_line(result, figure) for figure in result.of(workload)]
    return without_empty(Table(LEAGUE, lines, HINTS, _note(result, workload), workload))


def _note(result: Result, workload: str) -> str:
    """Return notes on all figures, and on servers whose accept queue overflowed."""
    ceiling = result.ceiling(workload)
    notes = [TOOL_LIMITED] if ceiling and ceiling.verdict == "generator-bound" else []
    figures = result.of(workload)
    if above := above_ceiling(result, figures):
        notes.append(above)
    if saturated := about_saturation(figures):
        notes.append(saturated)
    if any(each.contradiction for each in figures):
        notes.append(LATENCY_DOUBT)
    measured = [each for each in figures if each.rate]
    notes += _about_intervals(measured)
    if any(each.rounds > result.study.rounds for each in measured):
        notes.append(ROUNDS_ADDED)
    full = [f"{each.contestant.title} ({each.overflows:,})" for each in measured if each.overflows]
    if full:
        notes.append(f"{QUEUE_FULL} {', '.join(full)}.")
    return " ".join(notes)


def above_ceiling(result: Result, figures: Iterable[Figure]) -> str:
    """Return what a share above 100 % means; "" if none of these figures has one."""
    shares = (result.of_ceiling(each) for each in figures)
    return ABOVE_CEILING if any(each and each.middle > 1 for each in shares) else ""


def about_saturation(figures: Iterable[Figure]) -> str:
    """Return what the mark of latencies at saturation means; "" if none of these has it."""
    return SATURATION if any(each.is_saturated and each.latency_us for each in figures) else ""


def latency_text(figure: Figure, value_us: float | None) -> str:
    """Return a latency of a figure, marked if it was measured at saturation."""
    text = quantity.time_us(value_us)
    return text if value_us is None or not figure.is_saturated else f"{text} {SATURATED}"


def _about_intervals(figures: list[Figure]) -> list[str]:
    """Explain the second lines of rates; ranges and intervals have different meanings."""
    labels = {each.rate.label: each.rate.coverage for each in figures if each.rate}
    known = {label: share for label, share in sorted(labels.items()) if share is not None}
    if not known:
        return []
    parts = [
        f"{label} (has the true median in {quantity.share(share)} of races)"
        if label.startswith("range")
        else f"exact {label}"
        for label, share in known.items()
    ]
    return [f"Below each rate: {', or '.join(parts)}."]


def without_empty(table: Table) -> Table:
    """Remove columns in which every cell is a dash."""
    kept = [
        place
        for place in range(len(table.columns))
        if any(line.cells[place].text != quantity.NONE for line in table.lines)
    ]
    lines = [Line([line.cells[n] for n in kept], line.name, line.kind) for line in table.lines]
    return replace(
        table,
        columns=[table.columns[n] for n in kept],
        lines=lines,
        workloads=tuple(table.workloads[n] for n in kept) if table.workloads else (),
    )


def _line(result: Result, figure: Figure) -> Line:
    name, kind = figure.contestant.name, svg.place(figure.contestant)
    about = [figure.contestant.interface, figure.contestant.version or ""]
    title = Cell(
        figure.contestant.title,
        title=figure.contestant.settings,
        kind="contestant",
        under=" ".join(each for each in about if each not in ("", "none", "own")),
    )
    times = [latency_cell(figure, rank) for rank in ("p50", "p99", "max")]
    cells = [
        title,
        rate_cell(figure),
        ceiling_cell(result, figure),
        *times,
        served_cell(figure),
        _cost_cell(figure.cpu_us_per_request, "s"),
        _cost_cell(figure.energy_uj_per_request, "J"),
        Cell(quantity.size(figure.memory_bytes), figure.memory_bytes, kind="num"),
        errors_cell(figure),
        _limit_cell(figure),
    ]
    return Line(cells, name, kind if figure.valid else f"{kind} failed")


def rate_cell(figure: Figure) -> Cell:
    """Return correct responses per second with their interval, or why there are none."""
    rate = figure.rate
    if rate is None:
        why = quantity.cut(figure.reason, REASON_LETTERS_MAX)
        return Cell(figure.absence, None, figure.reason, "num bad", why)
    by_round = ", ".join(quantity.count(value) for _, value in sorted(figure.by_round.items()))
    title = f"rounds: {by_round}" + (f"; below: {rate.label}" if rate.label else "")
    under = [interval(rate), NOISY if figure.is_noisy else ""]
    below = ", ".join(each for each in under if each)
    return Cell(quantity.count(rate.middle), rate.middle, title, "num", below)


def plain_rate_cell(figure: Figure | None) -> Cell:
    """Return correct responses per second, or the failure; a dash if it was not run.

    Below it: in how many trials it has a figure, if not in all, and noise.
    """
    if figure is None:
        return Cell(quantity.NONE, None, "not run", "num quiet")
    if figure.rate is None:
        return Cell(figure.absence, None, figure.reason, "num bad")
    lost = len(figure.trials) - len(figure.valid)
    of = f"{len(figure.valid)} of {len(figure.trials)}" if lost else ""
    under = ", ".join(each for each in (of, NOISY if figure.is_noisy else "") if each)
    ends = interval(figure.rate)
    return Cell(quantity.count(figure.rate.middle), figure.rate.middle, ends, "num", under)


def latency_cell(figure: Figure, rank: str) -> Cell:
    """Return a percentile; one at saturation, or that contradicts the rate, is marked."""
    value = figure.latency_us.get(rank)
    text = latency_text(figure, value)
    if value is None or not figure.contradiction:
        return Cell(text, value, kind="num")
    return Cell(f"{text} *", value, figure.contradiction, "num doubtful")


def served_cell(figure: Figure) -> Cell:
    """Return how many connections were served, and how evenly; a dash if unknown."""
    served, flying = figure.served, figure.in_flight
    if served is not None and (total := served.connections + served.starved):
        text = f"{quantity.count(served.connections)} of {quantity.count(total)}"
        under = f"{quantity.count(served.min)}…{quantity.count(served.max)} each"
        title = service.unevenness(served)
        return Cell(text, served.connections / total, title, "num bad" if title else "num", under)
    if flying is None:
        return Cell(quantity.NONE, None, "the tool does not report it", "num quiet")
    connections = figure.workload.connections
    text = f"≈{quantity.count(max(1, flying))} in flight"
    doubt = figure.in_flight_doubt
    return Cell(text, flying / connections, doubt, "num bad" if doubt else "num")


def _cost_cell(found: Interval | None, unit: str) -> Cell:
    """Return what a million requests cost; a millionth for each has the same number."""
    if found is None:
        return Cell(quantity.NONE, kind="num quiet")
    return Cell(f"{quantity.short(found.middle)} {unit}", found.middle, found.label, "num")


def interval(found: Interval) -> str:
    """Return the ends of an interval for a second line; a single round has none."""
    return "" if found.low is None else quantity.interval(found)


def ceiling_cell(result: Result, figure: Figure) -> Cell:
    """Return the share of the ceiling; the ceiling itself has none."""
    found = result.of_ceiling(figure)
    ends = quantity.interval(found)
    title = ""
    if found and ends != quantity.NONE:
        title = f"{_percent_interval(found.low, found.high)} ({found.label})"
    if found and found.middle > 1:
        title = f"{title}; {ABOVE_CEILING}".removeprefix("; ")
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
