"""Chooses the charts of a study, and what each one shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bolide.lab.report import open_loop, quantity
from bolide.lab.report.drawing import bars, lines, svg
from bolide.lab.report.drawing.bars import NARROW, WIDE, Row, Span
from bolide.lab.report.summary import Figure, Group, Result
from bolide.lab.stats.interval import Interval

Value = Callable[[Figure], float | Interval | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart in both widths."""

    key: str
    """Part of the file's name."""
    title: str
    wide: str
    narrow: str
    legend: tuple[tuple[str, str, str], ...] = ()
    """The lines: name, title and class of the colour of each contestant."""
    workload: str = ""
    """The workload of all figures, "" if there are several."""

    @property
    def is_full(self) -> bool:
        """Whether it takes the whole width of the page."""
        return self.key in FULL


METRICS: dict[str, tuple[str, str, Value]] = {
    "rate": ("Requests per second", "count", lambda figure: figure.rate),
    "p99": ("Latency, p99", "time", lambda figure: figure.latency_us.get("p99")),
    "p50": ("Latency, p50", "time", lambda figure: figure.latency_us.get("p50")),
    "memory": ("Memory", "bytes", lambda figure: figure.memory_bytes),
    "cpu": ("CPU per request", "time", lambda figure: figure.cpu_us_per_request),
    "errors": ("Failed requests", "share", lambda figure: figure.failed_share),
}
"""Key: title, unit, value."""

FULL = ("rate", "latency", "latency-rate")
OVER_LEVELS = ("rate", "p50", "p99", "memory", "cpu", "errors")
SINGLE = ("memory", "cpu")
LATENCIES = ("p50", "p99")


def of_group(result: Result, group: Group, colours: dict[str, str]) -> list[Chart]:
    """Return a group's charts: lines over connections, or bars if there is only one level.

    A chart without a figure is left out.
    """
    if len(group.workloads) > 1:
        found = [_over_levels(result, group, key, colours) for key in OVER_LEVELS]
    else:
        workload = group.workloads[0].name
        found = [
            _bars(result, workload, "rate", colours),
            _latency(result, workload, colours),
            *(_bars(result, workload, key, colours) for key in SINGLE),
        ]
    return [each for each in found if each]


def opening(result: Result, colours: dict[str, str]) -> list[Chart]:
    """Return the pictures that a study begins with.

    They are latency against the offered rate if that was measured, and the rates of the
    study's picture.
    """
    found = (_latency_at_rates(result, colours), _rates(result, colours))
    return [each for each in found if each]


def _rates(result: Result, colours: dict[str, str]) -> Chart | None:
    """Draw the rates of the study's picture.

    Bars are those of the document's servers, Bolide's and the ceiling. A chart over levels has
    all of them.
    """
    for group in in_order(result):
        shown = _of_document(result) if len(group.workloads) == 1 else result
        for drawn in of_group(shown, group, colours):
            if drawn.key == "rate":
                return replace(drawn, title=f"{drawn.title}: {group.title}")
    return None


def in_order(result: Result) -> list[Group]:
    """Return the groups, the most useful first.

    That is the one of the study's picture, then those in which the most servers have a rate that
    the tool did not limit.
    """

    def limited(group: Group) -> float:
        figures = [each for load in group.workloads for each in result.of(load.name)]
        servers = [each for each in figures if each.contestant.role != "ceiling"]
        own = [each for each in servers if each.rate and each.verdict != "generator-bound"]
        return 1 - len(own) / len(servers) if servers else 1.0

    def is_other(group: Group) -> bool:
        return result.study.picture not in {each.name for each in group.workloads}

    return sorted(result.groups, key=lambda each: (is_other(each), limited(each)))


def _of_document(result: Result) -> Result:
    """Return the results of the document's servers, Bolide's and the ceiling; or of all."""
    names = {each.contestant for each in result.study.published}
    names |= {name for each in result.study.claims for name in (*each.contestants, *each.than)}
    kept = {
        each.name for each in result.contestants if each.name in names or svg.place(each) != "other"
    }
    if not names & kept:
        return result
    figures = {key: each for key, each in result.figures.items() if key[1] in kept}
    return replace(result, figures=figures)


def _latency_at_rates(result: Result, colours: dict[str, str]) -> Chart | None:
    """Draw p99 from the intended start; a line ends where its server did not keep up."""
    series = []
    for curve in open_loop.curves(result, "common") or open_loop.curves(result, "own"):
        name = curve.contestant.name
        points = [
            lines.Point(
                each.offered_per_s,
                each.latency_us.get("p99") if each.is_served else None,
                each.p99_us and each.p99_us.low,
                each.p99_us and each.p99_us.high,
                is_noisy=each.is_noisy,
            )
            for each in curve.points
        ]
        if any(point.y for point in points):
            series.append(lines.Series(name, curve.contestant.title, colours[name], points))
    if not series:
        return None
    title = "Latency (p99) against the offered rate"
    legend = tuple((each.name, each.label, each.kind) for each in series)
    across = "requests per second offered"
    drawn = _both(
        "latency-rate",
        title,
        lambda width: lines.lines(series, title, width=width, unit="time", across=across),
    )
    return replace(drawn, legend=legend)


def _middle(value: float | Interval | None) -> Interval | None:
    if value is None or isinstance(value, Interval):
        return value
    return Interval(float(value), None, None, 1)


def _both(key: str, title: str, draw: Callable[[int], str]) -> Chart:
    return Chart(key, title, draw(WIDE), draw(NARROW))


def _over_levels(result: Result, group: Group, key: str, colours: dict[str, str]) -> Chart | None:
    title, unit, value = METRICS[key]
    series = []
    for contestant in result.contestants:
        points = []
        for each in group.workloads:
            figure = result.figures.get((each.name, contestant.name))
            found = _middle(value(figure)) if figure and (figure.valid or key == "errors") else None
            if found:
                points.append(lines.Point(each.connections, found.middle, found.low, found.high))
            else:
                points.append(lines.Point(each.connections, None))
        if any(point.y is not None for point in points):
            series.append(
                lines.Series(contestant.name, contestant.title, colours[contestant.name], points)
            )
    if not any(point.y for each in series for point in each.points):
        return None
    if key in LATENCIES:
        shown = (each for load in group.workloads for each in result.of(load.name))
        title = f"{_latency_title(each for each in shown if value(each))}, {key}"
    legend = tuple((each.name, each.label, each.kind) for each in series)
    drawn = _both(key, title, lambda width: lines.lines(series, title, width=width, unit=unit))
    return replace(drawn, legend=legend)


def _latency_title(figures: Iterable[Figure]) -> str:
    """Return the start of the title of a chart of latencies: whether these are at saturation."""
    found = {each.is_saturated for each in figures}
    if True not in found:
        return "Latency"
    return "Latency, partly at saturation" if False in found else "Latency at saturation"


def _bars(result: Result, workload: str, key: str, colours: dict[str, str]) -> Chart | None:
    title, unit, value = METRICS[key]
    figures = result.of(workload)
    rows = [_row(figure, _middle(value(figure)), unit, colours) for figure in figures]
    if key != "rate":  # lower is better
        rows = [row for row in rows if row.place != "ceiling"]
        rows.sort(key=lambda row: row.value if row.value is not None else float("inf"))
    if not any(row.value for row in rows):
        return None
    drawn = _both(key, title, lambda width: bars.bars(rows, title, width=width, unit=unit))
    return replace(drawn, workload=workload)


def _row(figure: Figure, value: Interval | None, unit: str, colours: dict[str, str]) -> Row:
    contestant = figure.contestant
    colour = colours[contestant.name]
    if value is None:
        why = figure.reasons[0] if figure.reasons and not figure.valid else "not measured"
        return Row(
            contestant.name,
            contestant.title,
            svg.place(contestant),
            colour,
            None,
            caption=quantity.cut(why, 48),
        )
    caption = quantity.of_unit(value.middle, unit)
    about = f"{contestant.title}: {caption}"
    if value.low is not None and value.high is not None:
        ends = (quantity.of_unit(value.low, unit), quantity.of_unit(value.high, unit))
        about += f" ({ends[0]} to {ends[1]} in {value.count} rounds)"
    return Row(
        contestant.name,
        contestant.title,
        svg.place(contestant),
        colour,
        value.middle,
        value.low,
        value.high,
        caption,
        about,
    )


def _latency(result: Result, workload: str, colours: dict[str, str]) -> Chart | None:
    found = []
    for figure in result.of(workload):
        latency, contestant = figure.latency_us, figure.contestant
        p50, p99 = latency.get("p50"), latency.get("p99")
        middle = p50 or latency.get("mean")
        caption = (
            f"{quantity.time_us(middle)} … {quantity.time_us(p99)}"
            if p99
            else quantity.time_us(middle)
        )
        if middle is None:
            caption = "not measured"
        row = Row(
            contestant.name,
            contestant.title,
            svg.place(contestant),
            colours[contestant.name],
            middle,
            caption=caption,
            title=_tooltip(figure),
        )
        found.append(Span(row, p99, latency.get("max")))
    if not any(span.row.value for span in found):
        return None
    found.sort(key=lambda span: span.row.value or float("inf"))
    measured = (each for each in result.of(workload) if each.latency_us)
    title = f"{_latency_title(measured)}: p50, p99, maximum"
    drawn = _both("latency", title, lambda width: bars.spans(found, title, width=width))
    return replace(drawn, workload=workload)


def _tooltip(figure: Figure) -> str:
    latency = figure.latency_us
    latencies = [
        f"{rank} {quantity.time_us(latency.get(rank))}" for rank in ("p50", "p90", "p99", "p99_9")
    ]
    longest = quantity.time_us(latency.get("max"))
    about = " (at saturation)" if figure.is_saturated else ""
    return f"{figure.contestant.title}: {', '.join(latencies)}, max {longest}{about}"
