"""The mark for unreliable figures: a wide spread over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

UNSTABLE_SHARE = 0.05
"""Spread over rounds above which a figure is unstable (coefficient of variation above 5 %)."""


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
