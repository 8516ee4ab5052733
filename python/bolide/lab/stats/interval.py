"""Medians over rounds, with confidence intervals."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import median
from typing import final

CONFIDENCE = 0.95
RESAMPLES = 4000
EXACT_MAX = 5
"""Up to this many values all resamples are computed (5 ** 5 = 3125), instead of random ones."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval; `low` and `high` are None for a single value: unknown."""

    middle: float
    low: float | None
    high: float | None
    count: int
    """Number of values that it was computed from."""

    @property
    def relative_width(self) -> float | None:
        """Half the width of the interval, divided by its middle."""
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
    """Return the median with its percentile bootstrap interval (95 %); None without values.

    The same values always have the same interval.
    """
    if not values:
        return None
    if len(values) == 1:
        return Interval(values[0], None, None, 1)
    ordered = sorted(values)
    weights = _middles(len(ordered)).items()
    drawn = sorted(((ordered[low] + ordered[high]) / 2, times) for (low, high), times in weights)
    found = [value for value, times in drawn for _ in range(times)]
    tail = (1 - CONFIDENCE) / 2
    ends = quantile(found, tail), quantile(found, 1 - tail)
    return Interval(median(ordered), *ends, len(ordered))


@cache
def _middles(count: int) -> Counter[tuple[int, int]]:
    """Count the ranks whose mean is the median of a resample: two, or one twice if `count` is odd.

    They depend only on the number of values.
    """
    ranks = range(count)
    if count <= EXACT_MAX:
        samples: Iterable[Sequence[int]] = product(ranks, repeat=count)
    else:
        sampler = random.Random(count)  # noqa: S311 - statistics, not a secret
        samples = (sampler.choices(ranks, k=count) for _ in range(RESAMPLES))
    middle = (count - 1) // 2, count // 2
    found: Counter[tuple[int, int]] = Counter()
    for sample in samples:
        ordered = sorted(sample)
        found[ordered[middle[0]], ordered[middle[1]]] += 1
    return found
