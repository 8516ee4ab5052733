"""Numbers with units: parsed as wrk and h2load print them, written as every tool reads them."""

from __future__ import annotations

import re
from decimal import Decimal

_TIMES_US = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def time_us(text: str) -> float:
    """Read a time: 42us, 1.21ms, 3.10s, 1.00m, 2h. Microseconds.

    Raises:
        ValueError: it is malformed.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)", text)
    if not found:
        raise ValueError(f"{text!r} is not a time")
    return float(found[1]) * _TIMES_US[found[2]]


def size_bytes(text: str) -> float:
    """Read a size: 512B, 7.33MB, 1.2GB; each step is 1024.

    Raises:
        ValueError: it is malformed.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B", text)
    if not found:
        raise ValueError(f"{text!r} is not a size")
    return float(found[1]) * _SIZES[found[2]]


def number(value: float) -> str:
    """Write a number without an exponent, which some tools do not read: 1000000, 99.5."""
    return f"{Decimal(str(value)):f}".removesuffix(".0")


def duration(seconds: float) -> str:
    """Write a duration as a whole number of s, ms or us: some tools read no fraction.

    It is rounded to a microsecond, and at least one.
    """
    us = max(1, round(seconds * 1e6))
    for unit, factor in (("s", 1_000_000), ("ms", 1000)):
        if us % factor == 0:
            return f"{us // factor}{unit}"
    return f"{us}us"
