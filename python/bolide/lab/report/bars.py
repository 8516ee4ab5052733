"""Charts of one row per contestant: bars with intervals, and spans of latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from bolide.lab.report import svg, words

WIDE, NARROW = 760, 360
"""Widths of a chart: for a screen, and for a phone."""
TOP = 30
LETTER_WIDTH = 6.9
"""Of a label, on average; a bold one's letters are wider, and its names shorter."""
LETTERS_MAX = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant's bar or span."""

    name: str
    label: str
    kind: str
    """ours, ceiling or other"""
    value: float | None
    low: float | None = None
    high: float | None = None
    said: str = ""
    """What stands behind the bar, or instead of it."""
    title: str = ""
    """What a pointer is told."""


@dataclass(frozen=True)
class _Frame:
    """Where things stand in a chart of a width."""

    width: int
    letters: int
    """Of the longest label."""

    @classmethod
    def of(cls, width: int, rows: Sequence[Row]) -> _Frame:
        return cls(width, min(max((len(row.label) for row in rows), default=0), LETTERS_MAX))

    @property
    def is_narrow(self) -> bool:
        return self.width < 500

    @property
    def left(self) -> int:
        return 14 if self.is_narrow else 32 + round(self.letters * LETTER_WIDTH)

    @property
    def right(self) -> int:
        return self.width - (74 if self.is_narrow else 96)

    @property
    def span_right(self) -> int:
        """Where spans end: what is said of them is longer."""
        return self.width - (132 if self.is_narrow else 150)

    @property
    def pitch(self) -> int:
        return 42 if self.is_narrow else 27

    def label(self, row: Row) -> str:
        kind = "strong" if row.kind == "ours" else ""
        if self.is_narrow:
            return svg.text(self.left, 14, words.cut(row.label, LETTERS_MAX), kind)
        label = words.cut(row.label, LETTERS_MAX)
        return svg.text(self.left - 12, 18, label, f"end {kind}")

    @property
    def bar_y(self) -> int:
        return 20 if self.is_narrow else 5


def _rows(frame: _Frame, rows: Sequence[Row], mark: Callable[[Row], str]) -> str:
    found = []
    for place, row in enumerate(rows):
        title = f"<title>{escape(row.title)}</title>" if row.title else ""
        found.append(
            f'<g class="row {row.kind}" data-c="{escape(row.name)}"'
            f' transform="translate(0,{TOP + place * frame.pitch})">'
            f"{title}{frame.label(row)}{mark(row)}</g>"
        )
    return "".join(found)


def _axis(frame: _Frame, ticks: list[float], at: Callable[[float], float], say: str) -> str:
    """Draw grid lines far below the chart, so that it can grow and shrink with its rows."""
    found = []
    for tick in ticks:
        label = words.time_us(tick) if say == "time" else say_value(tick, say)
        found.append(svg.line(at(tick), TOP - 6, at(tick), 9999, "grid"))
        found.append(svg.text(at(tick), TOP - 12, label, "quiet small mid"))
    return "".join(found)


def say_value(value: float, unit: str) -> str:
    """Write a value of an axis in a unit: count, bytes or time."""
    if unit == "bytes":
        return words.size(value)
    return words.time_us(value) if unit == "time" else words.short(value)


def bars(rows: Sequence[Row], label: str, *, width: int = WIDE, unit: str = "count") -> str:
    """Draw a bar from 0 for each row, with its interval; the ceiling's end goes through all."""
    frame = _Frame.of(width, rows)
    greatest = max((max(r.value or 0, r.high or 0) for r in rows), default=0) or 1
    ticks = words.size_ticks(greatest) if unit == "bytes" else words.ticks(0, greatest)
    ticks = ticks[: 4 if frame.is_narrow else 9]

    def at(value: float) -> float:
        return frame.left + value / greatest * (frame.right - frame.left)

    def mark(row: Row) -> str:
        y = frame.bar_y
        if row.value is None:
            return svg.text(frame.left + 4, y + 13, row.said, "quiet small")
        length = max(at(row.value) - frame.left, 1.5)
        found = (
            f'<rect x="{frame.left}" y="{y}" width="{length:.1f}" height="17" rx="3" class="bar"/>'
        )
        end = at(row.value)
        if row.low is not None and row.high is not None and row.high > row.low:
            found += svg.line(at(row.low), y + 8.5, at(row.high), y + 8.5, "whisker")
            found += svg.line(at(row.low), y + 5, at(row.low), y + 12, "whisker")
            found += svg.line(at(row.high), y + 5, at(row.high), y + 12, "whisker")
            end = at(row.high)
        return found + svg.text(end + 7, y + 13, row.said, "strong small said")

    limit = next((row.value for row in rows if row.kind == "ceiling" and row.value), None)
    above = svg.line(at(limit), TOP - 6, at(limit), 9999, "limit") if limit else ""
    height = TOP + len(rows) * frame.pitch + 6
    body = _axis(frame, ticks, at, unit) + above + _rows(frame, rows, mark)
    return svg.drawing(width, height, label, body, pitch=frame.pitch, top=TOP)


@dataclass(frozen=True, slots=True)
class Span:
    """A latency's figures: a dot at p50, a thick line to p99, a thin one to the maximum."""

    row: Row
    p99: float | None
    greatest: float | None


def spans(rows: Sequence[Span], label: str, *, width: int = WIDE) -> str:
    """Draw latencies in microseconds on a logarithmic axis."""
    frame = _Frame.of(width, [span.row for span in rows])
    known = [v for r in rows for v in (r.row.value, r.p99, r.greatest) if v and v > 0]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    low, high = low / 1.3, max(high * 1.1, low * 10)
    step = (frame.span_right - frame.left) / math.log(high / low)

    def at(value: float) -> float:
        return frame.left + math.log(max(value, low) / low) * step

    def mark(span: Span) -> str:
        y, row = frame.bar_y + 8.5, span.row
        if not row.value:
            return svg.text(frame.left + 4, y + 4, row.said, "quiet small")
        found, end = "", row.value
        if span.greatest:
            found += svg.line(at(row.value), y, at(span.greatest), y, "span thin")
            found += svg.line(at(span.greatest), y - 4, at(span.greatest), y + 4, "span thin")
            end = max(end, span.greatest)
        if span.p99:
            found += svg.line(at(row.value), y, at(span.p99), y, "span")
            end = max(end, span.p99)
        found += f'<circle cx="{at(row.value):.1f}" cy="{y}" r="5" class="dot"/>'
        return found + svg.text(at(end) + 8, y + 4.5, row.said, "small said")

    by_name = {span.row.name: span for span in rows}
    ticks = [each for each in words.log_ticks(low, high) if each >= low]
    body = _axis(frame, ticks[:: 2 if frame.is_narrow and len(ticks) > 4 else 1], at, "time")
    body += _rows(frame, [span.row for span in rows], lambda row: mark(by_name[row.name]))
    height = TOP + len(rows) * frame.pitch + 6
    return svg.drawing(width, height, label, body, pitch=frame.pitch, top=TOP)
