"""Medians over rounds, and how far they could lie from the truth."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

CONFIDENCE = 0.95
RESAMPLES = 4000
EXACT_MAX = 5
"""Up to so many values every resample is looked at (5 ** 5 = 3125), none left to chance."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval; `low` and `high` are None for a single value: unknown."""

    middle: float
    low: float | None
    high: float | None
    count: int
    """Values that it was made from."""

    @property
    def relative_width(self) -> float | None:
        """Half of the interval's width by its middle."""
        if self.low is None or self.high is None or not self.middle:
            return None
        return (self.high - self.low) / 2 / abs(self.middle)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between the closest ranks (R's type 7, numpy's default).

    Raises:
        ValueError: there is no value.
    """
    if not ordered:
        raise ValueError("no value has a quantile")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(values: Sequence[float]) -> Interval | None:
    """Give the median with its percentile bootstrap interval; None without a value."""
    return bootstrap(values, median)


def bootstrap(
    values: Sequence[float], estimate: Callable[[Sequence[float]], float]
) -> Interval | None:
    """Give an estimate with its percentile bootstrap interval (95 %); None without a value.

    The same values always give the same interval.
    """
    if not values:
        return None
    middle = estimate(values)
    if len(values) == 1:
        return Interval(middle, None, None, 1)
    found = sorted(estimate(drawn) for drawn in _resamples(values))
    tail = (1 - CONFIDENCE) / 2
    return Interval(middle, quantile(found, tail), quantile(found, 1 - tail), len(values))


def _resamples(values: Sequence[float]) -> list[Sequence[float]]:
    if len(values) <= EXACT_MAX:
        return list(product(values, repeat=len(values)))
    dice = random.Random(len(values))  # noqa: S311 - statistics, no secret
    return [dice.choices(values, k=len(values)) for _ in range(RESAMPLES)]
