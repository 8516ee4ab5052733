"""Ratios of two contestants in the same rounds, and of two races."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import median

from bolide.lab.stats.interval import CONFIDENCE, RESAMPLES, Interval, median_interval, quantile


def paired(upper: Mapping[int, float], lower: Mapping[int, float]) -> Interval | None:
    """Return the median ratio over common rounds, in which both values had the same conditions.

    None if there is no such round, or a value that is not above 0.
    """
    rounds = sorted(upper.keys() & lower.keys())
    if not rounds or any(min(upper[each], lower[each]) <= 0 for each in rounds):
        return None
    return median_interval([upper[each] / lower[each] for each in rounds])


def unpaired(upper: Sequence[float], lower: Sequence[float]) -> Interval | None:
    """Return the ratio of two medians whose values are from different races.

    None without values, or with one that is not above 0.
    """
    if not upper or not lower or min(*upper, *lower) <= 0:
        return None
    middle = median(upper) / median(lower)
    count = min(len(upper), len(lower))
    if count == 1:
        return Interval(middle, None, None, 1)
    sampler = random.Random(count)  # noqa: S311 - statistics, not a secret
    found = sorted(
        median(sampler.choices(upper, k=len(upper))) / median(sampler.choices(lower, k=len(lower)))
        for _ in range(RESAMPLES)
    )
    tail = (1 - CONFIDENCE) / 2
    return Interval(middle, quantile(found, tail), quantile(found, 1 - tail), count)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean of ratios; None without values, or if one is not above 0."""
    if not values or min(values) <= 0:
        return None
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
