"""Numbers as people read them. Unknown is a dash, never 0."""

from __future__ import annotations

import math

from bolide.lab.stats.interval import Interval

NONE = "–"
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def count(value: float | None) -> str:
    """Write 1234567.8 as 1,234,568."""
    return NONE if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Write a count for an axis or a bar: 950, 1.2k, 165k, 3.9M."""
    if value is None:
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.99995:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def small(value: float | None) -> str:
    """Write a ratio of counts, such as events per request: 12, 0.5, < 0.001."""
    return "< 0.001" if value is not None and 0 < value < 0.001 else short(value)


def _three(value: float) -> str:
    """Write three digits at most, and none that is nought at the end."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 9.995 else f"{value:.2g}"


def time_us(value: float | None) -> str:
    """Write microseconds in the unit that fits: 61 us, 1.2 ms, 3.1 s."""
    if value is None:
        return NONE
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if value >= size * 0.9995:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} µs"


def size(value: float | None) -> str:
    """Write bytes: 512 B, 1.2 KiB, 38 MiB."""
    if value is None:
        return NONE
    for step, unit in _SIZES:
        if value >= step:
            return f"{_three(value / step)} {unit}"
    return f"{value:.0f} B"


def share(value: float | None) -> str:
    """Write 0.4231 as 42 %, and what is small with a digit more."""
    if value is None:
        return NONE
    percent = value * 100
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.2g} %"


def of_unit(value: float, unit: str) -> str:
    """Write a value of an axis: count, bytes, time (microseconds) or share."""
    if unit == "bytes":
        return size(value)
    if unit == "share":
        return f"{_three(value * 100)} %"
    return time_us(value) if unit == "time" else short(value)


def times(value: float | None) -> str:
    """Write a ratio: 1.43x."""
    if value is None:
        return NONE
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}×"


def interval(found: Interval | None) -> str:
    """Write the ends of an interval for a count; a dash where one value has none."""
    if found is None or found.low is None or found.high is None:
        return NONE
    return f"{count(found.low)}…{count(found.high)}"


def cut(text: str, letters: int = 60) -> str:
    """Cut a text where it gets long."""
    return text if len(text) <= letters else text[: letters - 1].rstrip() + "…"


def ticks(low: float, high: float) -> list[float]:
    """Give three to six round values from `low` to `high`."""
    if high <= low:
        return [low]
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def size_ticks(high: float) -> list[float]:
    """Give round numbers of the unit that fits, from 0 to `high` bytes."""
    step = next((step for step, _ in _SIZES if high >= step), 1)
    return [tick * step for tick in ticks(0, high / step)]


def log_ticks(low: float, high: float) -> list[float]:
    """Give powers of ten from `low` to `high`, with some between them if they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    between = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    every = [each * 10.0**power for power in range(first, last + 1) for each in between]
    return [value for value in every if low * 0.999 <= value <= high * 1.001]
