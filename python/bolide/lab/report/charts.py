"""Chooses the charts of a study, and what each one shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bolide.lab.report import bars, lines, quantity, svg
from bolide.lab.report.bars import NARROW, WIDE, Row, Span
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


METRICS: dict[str, tuple[str, str, Value]] = {
    "rate": ("Requests per second", "count", lambda figure: figure.rate),
    "p99": ("Latency, p99", "time", lambda figure: figure.latency_us.get("p99")),
    "p50": ("Latency, p50", "time", lambda figure: figure.latency_us.get("p50")),
    "memory": ("Memory", "bytes", lambda figure: figure.memory_bytes),
    "cpu": ("CPU per request", "time", lambda figure: figure.cpu_us_per_request),
    "errors": ("Failed requests", "share", lambda figure: figure.failed_share),
}
"""Key: title, unit, value."""

OVER_LEVELS = ("rate", "p50", "p99", "memory", "cpu", "errors")
SINGLE = ("memory", "cpu")


def of_group(result: Result, group: Group, colours: dict[str, str]) -> list[Chart]:
    """Return a group's charts: lines over connections, or bars if there is only one level."""
    if len(group.workloads) > 1:
        keys = [key for key in OVER_LEVELS if key != "errors" or _has_errors(result, group)]
        return [_over_levels(result, group, key, colours) for key in keys]
    workload = group.workloads[0].name
    found = [_bars(result, workload, "rate"), _latency(result, workload)]
    return found + [_bars(result, workload, key) for key in SINGLE]


def _has_errors(result: Result, group: Group) -> bool:
    names = {each.name for each in group.workloads}
    return any(figure.failed for (name, _), figure in result.figures.items() if name in names)


def _middle(value: float | Interval | None) -> Interval | None:
    if value is None or isinstance(value, Interval):
        return value
    return Interval(float(value), None, None, 1)


def _both(key: str, title: str, draw: Callable[[int], str]) -> Chart:
    return Chart(key, title, draw(WIDE), draw(NARROW))


def _over_levels(result: Result, group: Group, key: str, colours: dict[str, str]) -> Chart:
    title, unit, value = METRICS[key]
    series = []
    for contestant in result.contestants:
        points = []
        for each in group.workloads:
            figure = result.figures.get((each.name, contestant.name))
            found = _middle(value(figure)) if figure and (figure.valid or key == "errors") else None
            if found:
                points.append(lines.Point(each.connections, found.middle, found.low, found.high))
        if points:
            series.append(
                lines.Series(contestant.name, contestant.title, colours[contestant.name], points)
            )
    legend = tuple((each.name, each.label, each.kind) for each in series)
    drawn = _both(key, title, lambda width: lines.lines(series, title, width=width, unit=unit))
    return replace(drawn, legend=legend)


def _bars(result: Result, workload: str, key: str) -> Chart:
    title, unit, value = METRICS[key]
    figures = result.of(workload)
    rows = [_row(figure, _middle(value(figure)), unit) for figure in figures]
    if key != "rate":  # lower is better
        rows = [row for row in rows if row.kind != "ceiling"]
        rows.sort(key=lambda row: row.value if row.value is not None else float("inf"))
    return _both(key, title, lambda width: bars.bars(rows, title, width=width, unit=unit))


def _row(figure: Figure, value: Interval | None, unit: str) -> Row:
    contestant = figure.contestant
    if value is None:
        why = figure.reasons[0] if figure.reasons and not figure.valid else "not measured"
        return Row(
            contestant.name,
            contestant.title,
            svg.place(contestant),
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
        value.middle,
        value.low,
        value.high,
        caption,
        about,
    )


def _latency(result: Result, workload: str) -> Chart:
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
            middle,
            caption=caption,
            title=_tooltip(figure),
        )
        found.append(Span(row, p99, latency.get("max")))
    found.sort(key=lambda span: span.row.value or float("inf"))
    title = "Latency: p50, p99, maximum"
    return _both("latency", title, lambda width: bars.spans(found, title, width=width))


def _tooltip(figure: Figure) -> str:
    latency = figure.latency_us
    latencies = [
        f"{rank} {quantity.time_us(latency.get(rank))}" for rank in ("p50", "p90", "p99", "p99_9")
    ]
    longest = quantity.time_us(latency.get("max"))
    return f"{figure.contestant.title}: {', '.join(latencies)}, max {longest}"
