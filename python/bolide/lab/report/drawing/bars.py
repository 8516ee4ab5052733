"""Charts of one row per contestant: bars with intervals, and spans of latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bolide.lab.report.drawing import svg
from bolide.lab.report.drawing.axis import Axis

WIDE, NARROW = 900, 360
"""Widths of a chart: for a screen, and for a phone."""
TOP = 30
LETTER_WIDTH = 7.4
"""Average width of a letter, if some of them are bold."""
LETTERS_MAX = 42
"""Letters of a title beside a bar; a longer one is replaced by the contestant's name."""
LENGTH_MIN = 1.5
"""Minimum length of a bar, so that it is visible."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant's bar or span."""

    name: str
    label: str
    place: str
    """ours, ceiling or other"""
    colour: str
    """Class of its colour."""
    value: float | None
    low: float | None = None
    high: float | None = None
    caption: str = ""
    """The text after the bar, or instead of it."""
    title: str = ""
    """The tooltip."""


@dataclass(frozen=True)
class _Frame:
    """The layout of a chart of one width."""

    width: int
    letters: int
    """Length of the longest label."""

    @classmethod
    def of(cls, width: int, rows: Sequence[Row]) -> _Frame:
        return cls(width, max((len(_label(row)) for row in rows), default=0))

    @property
    def is_narrow(self) -> bool:
        return self.width < 500

    @property
    def left(self) -> int:
        return 14 if self.is_narrow else 32 + round(self.letters * LETTER_WIDTH)

    @property
    def right(self) -> int:
        return self.width - (82 if self.is_narrow else 96)

    @property
    def span_right(self) -> int:
        """The right end of spans, whose texts are longer than those of bars."""
        return self.width - (132 if self.is_narrow else 150)

    @property
    def pitch(self) -> int:
        return 42 if self.is_narrow else 27

    def label(self, row: Row) -> str:
        kind = "strong" if row.place == "ours" else ""
        if self.is_narrow:
            return svg.text(self.left, 14, _label(row), kind)
        return svg.text(self.left - 12, 18, _label(row), f"end {kind}")

    @property
    def bar_y(self) -> int:
        return 20 if self.is_narrow else 5


def _label(row: Row) -> str:
    return svg.label(row.label, row.name, LETTERS_MAX)


def _rows(frame: _Frame, rows: Sequence[Row], mark: Callable[[Row], str]) -> str:
    found = []
    for place, row in enumerate(rows):
        title = f"<title>{svg.escape(row.title)}</title>" if row.title else ""
        found.append(
            f'<g class="row {row.colour}" data-c="{svg.escape(row.name)}"'
            f' transform="translate(0,{TOP + place * frame.pitch})">'
            f"{title}{frame.label(row)}{mark(row)}</g>"
        )
    return "".join(found)


def _grid(axis: Axis, width: int) -> str:
    """Draw grid lines far beyond the chart, whose height changes with the number of rows."""
    found = []
    for tick in axis.ticks():
        x, label = axis.at(tick), axis.label(tick)
        found.append(
            f'<g class="tick" transform="translate({x:.1f},0)">'
            f"{svg.line(0, TOP - 6, 0, 9999, 'grid')}"
            f"{svg.text(svg.inside(x, label, width) - x, TOP - 12, label, 'quiet small mid')}</g>"
        )
    return "".join(found)


def _caption(axis: Axis, y: float, end: float, caption: str, kind: str) -> str:
    """Write the text of a row after its end."""
    return (
        f'<text x="{axis.at(end):.1f}" dx="8" y="{y:.1f}" class="{kind} caption">'
        f"{svg.escape(caption)}</text>"
    )


def _whisker(axis: Axis, y: float, low: float, high: float) -> str:
    ends = svg.line(axis.at(low), y, axis.at(high), y, "whisker")
    for each in (low, high):
        x = axis.at(each)
        ends += svg.line(x, y - 3.5, x, y + 3.5, "whisker")
    return ends


def _drawing(frame: _Frame, label: str, count: int, body: str) -> str:
    height = TOP + count * frame.pitch + 6
    return svg.drawing(frame.width, height, label, body, pitch=frame.pitch, top=TOP)


def bars(rows: Sequence[Row], label: str, *, width: int = WIDE, unit: str = "count") -> str:
    """Draw a bar from 0 for each row, with its interval; a line marks the ceiling in all rows."""
    frame = _Frame.of(width, rows)
    ends = (frame.left, frame.right)
    known = [value for row in rows for value in (row.value, row.high)]
    axis = Axis.of(known, ends, unit, ticks_max=4 if frame.is_narrow else 8)

    def mark(row: Row) -> str:
        y = frame.bar_y
        if row.value is None:
            return svg.text(frame.left + 4, y + 13, row.caption, "quiet small")
        length = max(axis.at(row.value) - frame.left, LENGTH_MIN)
        found = (
            f'<rect x="{frame.left}" y="{y}" width="{length:.1f}" height="17" rx="3" class="bar"/>'
        )
        end = row.value
        if row.low is not None and row.high is not None and row.high > row.low:
            found += _whisker(axis, y + 8.5, row.low, row.high)
            end = row.high
        return found + _caption(axis, y + 13, end, row.caption, "strong small")

    limit = next((row for row in rows if row.place == "ceiling" and row.value), None)
    above = ""
    if limit and limit.value:
        more = f' data-c="{svg.escape(limit.name)}"'
        x = axis.at(limit.value)
        above = svg.line(x, TOP - 6, x, 9999, "limit", more)
    body = _grid(axis, width) + above + _rows(frame, rows, mark)
    return _drawing(frame, label, len(rows), body)


@dataclass(frozen=True, slots=True)
class Span:
    """The figures of a latency: a dot at p50, a thick line to p99, a thin one to the maximum."""

    row: Row
    p99: float | None
    greatest: float | None


def spans(rows: Sequence[Span], label: str, *, width: int = WIDE) -> str:
    """Draw latencies in microseconds on a logarithmic axis."""
    frame = _Frame.of(width, [span.row for span in rows])
    known = [value for each in rows for value in (each.row.value, each.p99, each.greatest)]
    ends = (frame.left, frame.span_right)
    axis = Axis.of(known, ends, "time", "log", ticks_max=4 if frame.is_narrow else 8)

    def stroke(y: float, start: float, end: float, kind: str) -> str:
        return svg.line(axis.at(start), y, axis.at(end), y, kind)

    def mark(span: Span) -> str:
        y, row = frame.bar_y + 8.5, span.row
        if not row.value:
            return svg.text(frame.left + 4, y + 4, row.caption, "quiet small")
        found, end = "", row.value
        if span.greatest:
            x = axis.at(span.greatest)
            found += stroke(y, row.value, span.greatest, "span thin")
            found += svg.line(x, y - 4, x, y + 4, "span thin")
            end = max(end, span.greatest)
        if span.p99:
            found += stroke(y, row.value, span.p99, "span")
            end = max(end, span.p99)
        x = axis.at(row.value)
        found += f'<circle cx="{x:.1f}" cy="{y}" r="5" class="dot"/>'
        return found + _caption(axis, y + 4.5, end, row.caption, "small")

    by_name = {span.row.name: span for span in rows}
    body = _grid(axis, width) + _rows(
        frame, [s.row for s in rows], lambda row: mark(by_name[row.name])
    )
    return _drawing(frame, label, len(rows), body)
