"""Medians over rounds: with the range for few rounds, else with an exact interval.

The median of the population is between the k-th smallest and the k-th largest of n independent
values with a probability that depends on k and n alone, whatever the distribution is: it is outside
only if fewer than k of n fair coins fall on one side. So the coverage is known exactly, and stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import final

CONFIDENCE = 0.95
ROUNDS_MIN = 6
"""Fewest values whose range covers the median with CONFIDENCE; with fewer, it is only the range."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A median with its interval; `low` and `high` are None for a single value: unknown."""

    middle: float
    low: float | None
    high: float | None
    count: int
    """Number of values that it was computed from."""

    @property
    def reach(self) -> float | None:
        """Distance of the farther end from the middle, divided by the middle."""
        if self.low is None or self.high is None or not self.middle:
            return None
        return max(self.high - self.middle, self.middle - self.low) / abs(self.middle)

    @property
    def is_range(self) -> bool:
        """Whether there are too few values for an interval: the ends are the extremes."""
        return self.count < ROUNDS_MIN

    @property
    def coverage(self) -> float | None:
        """Probability that the ends include the median; None for a single value."""
        return None if self.low is None else coverage(self.count, depth(self.count))

    @property
    def label(self) -> str:
        """What the ends are: "range of 3 rounds", "98.4 % interval"; "" for a single value."""
        if self.coverage is None:
            return ""
        if self.is_range:
            return f"range of {self.count} rounds"
        return f"{math.floor(self.coverage * 1000) / 10:g} % interval"


def coverage(count: int, rank: int) -> float:
    """Return the probability that the median is between the rank-th value from either end.

    The values are independent and from one continuous distribution.
    """
    outside = sum(math.comb(count, below) for below in range(rank))
    return 1 - outside / math.ldexp(1.0, count - 1)


@cache
def depth(count: int) -> int:
    """Return the rank, from either end, of the narrowest interval with CONFIDENCE; at least 1."""
    rank = 1
    while 2 * (rank + 1) <= count and coverage(count, rank + 1) >= CONFIDENCE:
        rank += 1
    return rank


def median_interval(values: Sequence[float]) -> Interval | None:
    """Return the median with its exact interval, or the range for few values; None without any."""
    if not values:
        return None
    if len(values) == 1:
        return Interval(values[0], None, None, 1)
    ordered = sorted(values)
    rank = depth(len(ordered))
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank], len(ordered))
