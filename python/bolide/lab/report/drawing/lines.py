"""Charts over the number of connections: a line for each contestant, with its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bolide.lab.report import quantity
from bolide.lab.report.drawing import svg
from bolide.lab.report.drawing.axis import Axis
from bolide.lab.report.drawing.bars import NARROW, WIDE

LETTER_WIDTH = 6.6
"""Average width of a letter of a name at the end of a line."""
LETTERS_MAX = 30
"""Letters of a title at the end of a line; a longer one is replaced by the contestant's name."""
NAME_PITCH = 15
"""Minimum distance of two names, in pixels."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a number of connections, or at a rate."""

    x: float
    y: float | None
    """None where there is no figure."""
    low: float | None = None
    high: float | None = None
    is_noisy: bool = False
    """Drawn as a hollow dot."""


@dataclass(frozen=True, slots=True)
class Series:
    """One contestant's line."""

    name: str
    label: str
    kind: str
    """Class of its colour."""
    points: Sequence[Point]


@dataclass(frozen=True)
class _Frame:
    width: int
    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, width: int, count: int, letters: int) -> _Frame:
        """Lay out a chart of a number of lines, with their names beside them if there is room.

        `letters` is the length of the longest name.
        """
        if width < 500:
            return cls(width, 62, width - 12, 26, 270)
        names = 40 + letters * LETTER_WIDTH
        return cls(width, 62, width - names, 26, max(370, 26 + count * NAME_PITCH))


def lines(
    series: Sequence[Series],
    label: str,
    *,
    width: int = WIDE,
    unit: str = "count",
    across: str = "connections",
) -> str:
    """Draw lines over `across`, which is on a logarithmic axis; values are on a fitting one."""
    frame = _Frame.of(width, len(series), max((len(_label(each)) for each in series), default=0))
    points = [point for each in series for point in each.points]
    if not points:
        return svg.drawing(width, 40, label, svg.text(16, 26, "nothing was measured", "quiet"))
    x_at = _log(frame.left + 10, frame.right, min(p.x for p in points), max(p.x for p in points))
    known = [value for p in points for value in (p.y, p.low, p.high)]
    scale = "linear" if unit == "share" else "fitting"
    axis = Axis.of(known, (frame.bottom, frame.top), unit, scale)
    body = _grid(frame, axis) + _levels(frame, points, x_at, across)
    if axis.is_log:
        body += svg.text(frame.left, 14, "logarithmic axis", "quiet small log")
    if any(each.is_noisy and each.y is not None for each in points):
        body += svg.text(frame.right, 14, "hollow dots: noisy", "quiet small end")
    drawn = [_line(each, x_at, axis) for each in series]
    names = _names(frame, series, axis) if width > NARROW else {}
    for each, path in zip(series, drawn, strict=True):
        body += (
            f'<g class="series {each.kind}" data-c="{svg.escape(each.name)}">'
            f"<title>{svg.escape(each.label)}</title>{path}{names.get(each.name, '')}</g>"
        )
    return svg.drawing(width, frame.bottom + 42, label, body)


def _log(start: float, end: float, low: float, high: float) -> Callable[[float], float]:
    reach = math.log(high / low) if high > low > 0 else 1.0
    return lambda value: start + (end - start) * math.log(max(value, low) / low) / reach


def _grid(frame: _Frame, axis: Axis) -> str:
    return "".join(
        f'<g class="tick" transform="translate(0,{axis.at(tick):.1f})">'
        f"{svg.line(frame.left, 0, frame.right, 0, 'grid')}"
        f"{svg.text(frame.left - 8, 4, axis.label(tick), 'quiet small end')}</g>"
        for tick in axis.ticks()
    )


def _levels(frame: _Frame, points: list[Point], at: Callable[[float], float], across: str) -> str:
    found, last = [], math.inf
    room = 34 if frame.width < 500 else 42
    for x in sorted({point.x for point in points}, reverse=True):
        if last - at(x) >= room:
            label = quantity.short(x)
            middle = svg.inside(at(x), label, frame.width)
            found.append(svg.text(middle, frame.bottom + 18, label, "quiet small mid"))
            last = at(x)
    middle = (frame.left + frame.right) / 2
    found.append(svg.text(middle, frame.bottom + 36, across, "quiet small mid"))
    return "".join(found)


def _runs(series: Series, axis: Axis) -> list[list[Point]]:
    """Return the points in runs: a line breaks where there is no figure."""
    runs: list[list[Point]] = [[]]
    for point in series.points:
        if point.y is None or (axis.is_log and point.y <= 0):
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _line(series: Series, x_at: Callable[[float], float], axis: Axis) -> str:
    runs = _runs(series, axis)
    at = [[(x_at(p.x), axis.at(p.y or 0)) for p in run] for run in runs]
    joined = "".join("M" + "L".join(map(_pair, run)) for run in at if len(run) > 1)
    shown = [point for run in runs for point in run]
    dots = "".join(f"M{_pair(each)}h0" for run in at for each in run)
    found = f'<path d="{joined}" class="stroke"/>' if joined else ""
    found += f'<path d="{dots}" class="stroke dots"/>'
    found += _intervals(shown, x_at, axis)
    return found + "".join(_hollow(x_at(p.x), axis.at(p.y or 0)) for p in shown if p.is_noisy)


def _hollow(x: float, y: float) -> str:
    """Draw a hollow dot over a full one."""
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="3.6"'
    return f'<circle {place} class="paper"/><circle {place} class="stroke solid hollow"/>'


def _pair(point: tuple[float, float]) -> str:
    return ",".join(f"{each:.1f}".removesuffix(".0") for each in point)


def _intervals(shown: list[Point], x_at: Callable[[float], float], axis: Axis) -> str:
    """Draw all intervals of a line as one path."""
    path = "".join(
        f"M{x_at(p.x):.1f},{axis.at(p.low):.1f}V{axis.at(p.high):.1f}"
        for p in shown
        if p.low is not None and p.high is not None and p.high > p.low > 0
    )
    return f'<path d="{path}" class="stroke solid"/>' if path else ""


def _label(series: Series) -> str:
    return svg.label(series.label, series.name, LETTERS_MAX)


def _names(frame: _Frame, series: Sequence[Series], axis: Axis) -> dict[str, str]:
    """Name each line at its right end; names are moved apart if lines end close together."""
    ends = {each.name: runs[-1][-1].y or 0 for each in series if (runs := _runs(each, axis))}
    order = sorted((each for each in series if each.name in ends), key=lambda s: -ends[s.name])
    places, last = [], -math.inf
    for each in order:
        last = max(axis.at(ends[each.name]), last + NAME_PITCH)
        places.append(last)
    limit = frame.bottom
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], limit)
        limit = places[place] - NAME_PITCH
    return {
        each.name: f'<g class="name" transform="translate({frame.right + 10:.1f},{y:.1f})">'
        f"{svg.line(0, 0, 20, 0, 'stroke')}"
        f"{svg.text(25, 4, _label(each), 'small fill')}</g>"
        for each, y in zip(order, places, strict=True)
    }
