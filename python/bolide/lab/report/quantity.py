"""Formats quantities for reading. An unknown value is a dash, never 0."""

from __future__ import annotations

from bolide.lab.stats.interval import Interval

NONE = "–"
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def count(value: float | None) -> str:
    """Format 1234567.8 as 1,234,568."""
    return NONE if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Format a count for an axis or a bar: 950, 1.2k, 165k, 3.9M."""
    if value is None:
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.99995:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def small(value: float | None) -> str:
    """Format a ratio of counts, such as events per request: 12, 0.5, < 0.001."""
    return "< 0.001" if value is not None and 0 < value < 0.001 else short(value)


def _three(value: float) -> str:
    """Format with at most three digits, without trailing zeros."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 9.995 else f"{value:.2g}"


def time_us(value: float | None) -> str:
    """Format microseconds in a suitable unit: 61 us, 1.2 ms, 3.1 s."""
    if value is None:
        return NONE
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if value >= size * 0.9995:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} µs"


def size(value: float | None) -> str:
    """Format bytes: 512 B, 1.2 KiB, 38 MiB."""
    if value is None:
        return NONE
    for step, unit in SIZES:
        if value >= step:
            return f"{_three(value / step)} {unit}"
    return f"{value:.0f} B"


def share(value: float | None) -> str:
    """Format 0.4231 as 42 %, and small values with one more digit."""
    if value is None:
        return NONE
    percent = value * 100
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.2g} %"


def of_unit(value: float, unit: str) -> str:
    """Format a value of an axis: count, bytes, time (microseconds) or share."""
    if unit == "bytes":
        return size(value)
    if unit == "share":
        return f"{_three(value * 100)} %"
    return time_us(value) if unit == "time" else short(value)


def times(value: float | None) -> str:
    """Format a ratio: 1.43x."""
    if value is None:
        return NONE
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}×"


def interval(found: Interval | None) -> str:
    """Format the ends of an interval of counts; a dash if there is only one value."""
    if found is None or found.low is None or found.high is None:
        return NONE
    return f"{count(found.low)}…{count(found.high)}"


def cut(text: str, letters: int = 60) -> str:
    """Truncate a long text after a word, so that no number loses digits."""
    if len(text) <= letters:
        return text
    head = text[: letters - 1]
    if not text[letters - 1].isspace():
        head = head.rpartition(" ")[0] or head
    return head.rstrip(" ,:;(") + "…"
