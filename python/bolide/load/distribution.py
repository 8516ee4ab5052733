"""Quantiles and shares of a report's histogram.

A row has the middle of a bucket in microseconds, and the number of latencies in it. A bucket is at
most 1/128 of its latencies wide, so a quantile errs by at most 0.4 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def quantile_us(rows: Rows, share: float) -> float | None:
    """Return the latency that a share (0 to 1) of all do not exceed; None if there are none."""
    return at_rank(rows, share * sum(row[1] for row in rows))


def at_rank(rows: Rows, rank: float) -> float | None:
    """Return the latency that this many of all do not exceed; None if there are fewer."""
    seen = 0.0
    for middle_us, count in rows:
        seen += count
        if seen >= rank:
            return middle_us
    return None


def share_between(rows: Rows, lower_us: float, upper_us: float) -> float | None:
    """Return the share (0 to 1) of latencies within bounds; None if there are none."""
    total = sum(row[1] for row in rows)
    if not total:
        return None
    return sum(count for middle, count in rows if lower_us <= middle <= upper_us) / total


def bins(
    rows: Rows, lowest_us: float, highest_us: float, bins_max: int
) -> list[tuple[float, float, int]]:
    """Merge the rows into at most `bins_max` bins whose bounds grow by a constant factor.

    The outermost bounds are the smallest and the largest latency. Each bin is its lower and upper
    bound in microseconds and its count. Empty bins between others are kept, so that gaps are
    visible.
    """
    if not rows:
        return []
    lowest_us = max(1.0, min(lowest_us, rows[0][0]))
    highest_us = max(highest_us, lowest_us * 1.01)
    width = math.log(highest_us / lowest_us) / bins_max
    counts = [0] * bins_max
    for middle_us, count in rows:
        place = math.log(max(middle_us, lowest_us) / lowest_us) / width
        counts[min(bins_max - 1, max(0, math.ceil(place) - 1))] += int(count)
    bounds = [lowest_us * math.exp(width * step) for step in range(bins_max + 1)]
    return list(zip(bounds, bounds[1:], counts, strict=False))
