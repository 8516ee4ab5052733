"""Ratios of the same rounds, and of whole races; one value for each start of a server."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from bolide.lab.stats.interval import Interval, median_interval


def by_round(upper: Mapping[int, float], lower: Mapping[int, float]) -> dict[int, float]:
    """Return the ratios of common rounds; {} if a value of these is not above 0."""
    rounds = sorted(upper.keys() & lower.keys())
    if any(min(upper[each], lower[each]) <= 0 for each in rounds):
        return {}
    return {each: upper[each] / lower[each] for each in rounds}


def start_of(turn: int, turns: int) -> int:
    """Return to which start of the servers a turn belongs, which has so many; both count from 1.

    Without turns (1 for each start) a round is a start of its own, and keeps its number.
    """
    return (turn - 1) // turns + 1


def by_start(values: Mapping[int, float], turns: int) -> dict[int, float]:
    """Return the median of each start's turns.

    Turns of one start share what it drew (hash seed, layout of memory), so they are not
    independent: intervals and tests that took them for that would be too narrow.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for turn, value in values.items():
        found[start_of(turn, turns)].append(value)
    return {start: median(each) for start, each in sorted(found.items())}


def paired(upper: Mapping[int, float], lower: Mapping[int, float]) -> Interval | None:
    """Return the median ratio over common rounds, in which both values had the same conditions.

    None if there is no such round, or a value that is not above 0.
    """
    return median_interval([*by_round(upper, lower).values()])


def deviation(ratios: Iterable[float]) -> float | None:
    """Return by how much the ratio that is furthest from 1 differs from it; None without any.

    A ratio and its reciprocal differ equally: 0.8 by 0.25, as 1.25 does.
    """
    return max((max(each, 1 / each) - 1 for each in ratios if each > 0), default=None)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean of ratios; None without values, or if one is not above 0."""
    if not values or min(values) <= 0:
        return None
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
