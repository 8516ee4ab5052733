"""Does a quantity grow? The slope of Theil and Sen, and whether it is more than chance.

The median of the slopes between all pairs of samples is not moved by a few that are far off. Its
bounds are those of Sen (1968): the ranks between which the true slope is with 95 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

Z_95 = 1.96


@dataclass(frozen=True)
class Trend:
    """How a quantity changes, in units per second."""

    slope: float
    low: float
    high: float
    seconds: float
    """How long it was watched."""

    @property
    def growth(self) -> float:
        """By how much it grew in this time."""
        return self.slope * self.seconds

    def exceeds(self, most: float) -> bool:
        """Whether it certainly grows, and by more than so much in this time."""
        return self.low > 0 and self.growth > most


def of(samples: list[tuple[float, float]]) -> Trend:
    """Return the trend of pairs of seconds and values; there are at least three."""
    count = len(samples)
    slopes = sorted(
        (value - before) / (at - since)
        for place, (at, value) in enumerate(samples)
        for since, before in samples[:place]
        if at > since
    )
    reach = Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    first = max(0, int((len(slopes) - reach) / 2))
    last = min(len(slopes) - 1, int((len(slopes) + reach) / 2))
    seconds = samples[-1][0] - samples[0][0]
    return Trend(median(slopes), slopes[first], slopes[last], seconds)
