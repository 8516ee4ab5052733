"""Histograms: rows of (largest value, count). They can be added up; percentiles cannot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Rows = Sequence[tuple[float, int]]


def merge(histograms: Iterable[Rows]) -> list[tuple[float, int]]:
    """Add histograms up; their bounds may differ."""
    counts: dict[float, int] = {}
    for rows in histograms:
        for upper, count in rows:
            counts[upper] = counts.get(upper, 0) + count
    return sorted((upper, count) for upper, count in counts.items() if count)


def total(rows: Rows) -> int:
    """Count the values."""
    return sum(count for _, count in rows)


def percentile(rows: Rows, share: float) -> float | None:
    """Return the bound at or below which a share of the values lies; it is never too low.

    It is the nearest rank (ceil(share * n)), as in HdrHistogram and oha. None without values, and
    if there are too few values to distinguish the share from the maximum: p99.9 needs a thousand.
    """
    count = total(rows)
    if not count or count * (1 - share) < 1 - 1e-9:
        return None
    rank = max(1, math.ceil(share * count - 1e-9))
    reached = 0
    for upper, count in sorted(rows):
        reached += count
        if reached >= rank:
            return upper
    return None
