"""Marks for unreliable figures: a wide spread over rounds, and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from bolide.lab.stats.interval import quantile

UNSTABLE_SHARE = 0.05
"""Spread over rounds above which a figure is unstable (coefficient of variation above 5 %)."""

FENCE = 1.5
FAR_FENCE = 3.0


def variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation: the sample's standard deviation divided by its mean.

    None for fewer than two values, or a mean of 0.
    """
    if len(values) < 2 or not (mean := fmean(values)):
        return None
    return stdev(values) / abs(mean)


def is_unstable(values: Sequence[float]) -> bool:
    """Whether the rounds differ too much for a single figure."""
    spread = variation(values)
    return spread is not None and spread > UNSTABLE_SHARE


def outliers(values: Sequence[float]) -> dict[int, str]:
    """Label values outside Tukey's fences "mild" or "severe", by index; none is dropped."""
    if len(values) < 4:
        return {}
    ordered = sorted(values)
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    reach = high - low
    found = {}
    for place, value in enumerate(values):
        distance = max(low - value, value - high)
        if distance > FENCE * reach and distance > 0:
            found[place] = "severe" if distance > FAR_FENCE * reach else "mild"
    return found
