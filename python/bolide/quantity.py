"""Parses and formats numbers with units.

The text of `ValueError` continues a sentence that starts with the value: "is not a duration; give
...".
"""

from __future__ import annotations

import re

_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DURATION = re.compile(_NUMBER + r"\s*(us|ms|s|m|h)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgG]?)")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
DURATION_S_MAX = 30 * 86_400.0
COUNT_MAX = 10**15


def seconds(text: str) -> float:
    """Parse a duration: `10`, `500ms`, `30s`, `2m` or `1h`; a number without a unit is seconds.

    Raises:
        ValueError: it is not a duration, or longer than 30 days.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a duration; give one like 10, 500ms, 30s or 2m")
    value = float(match[1]) * _SECONDS[match[2] or "s"]
    if value > DURATION_S_MAX:
        raise ValueError("is longer than 30 days; give one like 10, 500ms, 30s or 2m")
    return value


def microseconds(text: str) -> float:
    """Parse a latency, which needs its unit: `500us`, `20ms`, `1.5s`.

    Raises:
        ValueError: it is not a latency.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in ("us", "ms", "s"):
        raise ValueError("is not a latency; give one with its unit, like 500us, 20ms or 1.5s")
    return float(match[1]) * _SECONDS[match[2]] * 1e6


def count(text: str) -> int:
    """Parse a whole number that may end in k, M or G (powers of 1000), as `wrk` does: `10k`.

    Raises:
        ValueError: it is not a whole number.
    """
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    number = float(match[1]) * _FACTORS[match[2].lower()] if match else 0.5
    if number > COUNT_MAX:
        raise ValueError(f"is more than {COUNT_MAX:,}; give a smaller number")
    if number != int(number):
        raise ValueError("is not a whole number; give one like 100, 10000 or 10k")
    return int(number)


def share(text: str) -> float:
    """Parse a percentage above 0 and below 100, with or without its sign: `2%` is 0.02.

    Raises:
        ValueError: it is not such a percentage.
    """
    match = re.fullmatch(_NUMBER + r"\s*%?", text.strip())
    found = float(match[1]) / 100 if match else 0.0
    if not 0 < found < 1:
        raise ValueError("is not a percentage; give one above 0 and below 100, like 2%")
    return found


def latency_text(latency_us: float | None) -> str:
    """Format microseconds with three digits and a unit: `843 us`, `1.27 ms`, `2.05 s`."""
    if latency_us is None:
        return "-"
    for factor, unit in ((1.0, "us"), (1e3, "ms")):
        if latency_us / factor < 999.5:
            return f"{_digits(latency_us / factor)} {unit}"
    return f"{_digits(latency_us / 1e6)} s"


def duration_text(duration_s: float) -> str:
    """Format seconds: `0.4 s`, `10.0 s`, `2 min 05 s`."""
    if duration_s < 99.95:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest:02} s"


def bytes_text(count: float) -> str:
    """Format a number of bytes with a binary unit: `512 B`, `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1023.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{_digits(count)} {unit}"
        count /= 1024
    return f"{_digits(count)} GiB"


def _digits(value: float) -> str:
    """Format three significant digits, without an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
