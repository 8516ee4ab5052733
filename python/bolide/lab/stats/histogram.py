"""Histograms: rows of (value, count). They can be added up; percentiles cannot.

The value of a row of `bolide load` is the middle of a bucket, which is the same in every run. That
of other tools, and of earlier records, is the largest one of the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Rows = Sequence[tuple[float, int]]


def merge(histograms: Iterable[Rows]) -> list[tuple[float, int]]:
    """Add histograms up; this is exact if they have the same buckets."""
    counts: dict[float, int] = {}
    for rows in histograms:
        for value, count in rows:
            counts[value] = counts.get(value, 0) + count
    return sorted((value, count) for value, count in counts.items() if count)


def total(rows: Rows) -> int:
    """Count the values."""
    return sum(count for _, count in rows)


def percentile(rows: Rows, share: float) -> float | None:
    """Return the row that a share of the values does not exceed, by its value.

    It is the nearest rank (ceil(share * n)), as in HdrHistogram and oha. None without values, and
    if there are too few values to distinguish the share from the maximum: p99.9 needs a thousand.
    """
    count = total(rows)
    if not count or count * (1 - share) < 1 - 1e-9:
        return None
    rank = max(1, math.ceil(share * count - 1e-9))
    reached = 0
    for value, count in sorted(rows):
        reached += count
        if reached >= rank:
            return value
    return None
