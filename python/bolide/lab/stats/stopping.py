"""When a race has enough rounds: whether an interval is narrow enough, or will ever be."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bolide.lab.stats.interval import ROUNDS_MIN, median_interval
from bolide.lab.stats.noise import variation

_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of the median of a normal distribution, by that of the mean."""
_Z = 1.96


def is_narrow(values: Sequence[float], share: float) -> bool:
    """Whether the median's interval reaches at most a share of it to either side.

    A range of fewer than ROUNDS_MIN values is no interval, however narrow it is. An interval that
    is narrow although the values vary too much for that is so by chance.
    """
    found = median_interval(values)
    if found is None or found.is_range or found.reach is None:
        return False
    return found.reach <= share and len(values) >= rounds_needed(values, share)


def rounds_needed(values: Sequence[float], share: float) -> int:
    """Estimate how many rounds an interval that narrow needs, from the variation so far."""
    spread = variation(values) or 0.0
    return max(ROUNDS_MIN, math.ceil((_Z * _MEDIAN_ERROR * spread / share) ** 2))
