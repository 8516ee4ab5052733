"""Charts over the number of connections: a line for each contestant, with its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from bolide.lab.report import svg, words
from bolide.lab.report.bars import NARROW, WIDE, say_value

LETTERS_MAX = 28
"""Of a name at a line's end."""
LOG_FROM = 30
"""Values so many times apart stand on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a number of connections."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One contestant's line."""

    name: str
    label: str
    kind: str
    """Its colour's class."""
    points: Sequence[Point]


@dataclass(frozen=True)
class _Frame:
    width: int
    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, width: int) -> _Frame:
        if width < 500:
            return cls(width, 52, width - 12, 26, 270)
        return cls(width, 62, width - 190, 26, 370)


def lines(series: Sequence[Series], label: str, *, width: int = WIDE, unit: str = "count") -> str:
    """Draw lines; connections stand on a logarithmic axis, values on one that fits them."""
    frame = _Frame.of(width)
    points = [point for each in series for point in each.points]
    if not points:
        return svg.drawing(width, 40, label, svg.text(16, 26, "nothing was measured", "quiet"))
    x_at = _log(frame.left + 10, frame.right, min(p.x for p in points), max(p.x for p in points))
    values = [value for p in points for value in (p.y, p.low, p.high) if value is not None]
    positive = [value for value in values if value > 0]
    is_log = bool(positive) and max(positive) / min(positive) > LOG_FROM and unit != "share"
    if is_log:
        low, high = min(positive) / 1.2, max(positive) * 1.2
        y_at, ticks = _log(frame.bottom, frame.top, low, high), words.log_ticks(low, high)
    else:
        high = max(values) * 1.05 or 1
        y_at = _linear(frame.bottom, frame.top, high)
        ticks = words.size_ticks(high) if unit == "bytes" else words.ticks(0, high)
    body = _grid(frame, ticks, y_at, unit) + _levels(frame, points, x_at)
    if is_log:
        body += svg.text(frame.left, 14, "logarithmic axis", "quiet small")
    drawn = [_line(each, x_at, y_at, is_log=is_log) for each in series]
    ends = _ends(frame, series, y_at, is_log=is_log) if width > NARROW else {}
    for each, path in zip(series, drawn, strict=True):
        body += (
            f'<g class="series {each.kind}" data-c="{escape(each.name)}">'
            f"<title>{escape(each.label)}</title>{path}{ends.get(each.name, '')}</g>"
        )
    return svg.drawing(width, frame.bottom + 42, label, body)


def _log(start: float, end: float, low: float, high: float) -> Callable[[float], float]:
    reach = math.log(high / low) if high > low > 0 else 1.0
    return lambda value: start + (end - start) * math.log(max(value, low) / low) / reach


def _linear(start: float, end: float, high: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * value / high


def _grid(frame: _Frame, ticks: list[float], at: Callable[[float], float], unit: str) -> str:
    found = []
    for tick in ticks:
        said = words.share(tick) if unit == "share" else say_value(tick, unit)
        found.append(svg.line(frame.left, at(tick), frame.right, at(tick), "grid"))
        found.append(svg.text(frame.left - 8, at(tick) + 4, said, "quiet small end"))
    return "".join(found)


def _levels(frame: _Frame, points: list[Point], at: Callable[[float], float]) -> str:
    found, last = [], math.inf
    room = 34 if frame.width < 500 else 42
    for x in sorted({point.x for point in points}, reverse=True):
        if last - at(x) >= room:
            found.append(svg.text(at(x), frame.bottom + 18, words.short(x), "quiet small mid"))
            last = at(x)
    middle = (frame.left + frame.right) / 2
    found.append(svg.text(middle, frame.bottom + 36, "connections", "quiet small mid"))
    return "".join(found)


def _line(
    series: Series, x_at: Callable[[float], float], y_at: Callable[[float], float], *, is_log: bool
) -> str:
    shown = [point for point in series.points if point.y > 0 or not is_log]
    if not shown:
        return ""
    path = " ".join(f"{x_at(p.x):.1f},{y_at(p.y):.1f}" for p in shown)
    found = f'<polyline points="{path}" class="halo"/><polyline points="{path}" class="stroke"/>'
    for p in shown:
        if p.low is not None and p.high is not None and p.high > p.low > 0:
            x = x_at(p.x)
            found += svg.line(x, y_at(p.low), x, y_at(p.high), "stroke")
        found += f'<circle cx="{x_at(p.x):.1f}" cy="{y_at(p.y):.1f}" r="2.6" class="fill"/>'
    return found


def _ends(
    frame: _Frame, series: Sequence[Series], at: Callable[[float], float], *, is_log: bool
) -> dict[str, str]:
    """Name each line at its right end, names moved apart where lines end close together."""
    shown = [each for each in series if each.points and (each.points[-1].y > 0 or not is_log)]
    order = sorted(shown, key=lambda each: at(each.points[-1].y))
    places, last = [], frame.top - 15
    for each in order:
        last = max(at(each.points[-1].y), last + 15)
        places.append(last)
    limit = frame.bottom + 8
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], limit)
        limit = places[place] - 15
    return {
        each.name: svg.text(
            frame.right + 12, y + 4, words.cut(each.label, LETTERS_MAX), "small fill"
        )
        for each, y in zip(order, places, strict=True)
    }
