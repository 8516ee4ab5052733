"""Compares two races of the same studies: faster, slower, or no change. It prints nothing.

The first round of one race is compared with the first of the other, and so on, by an exact test
that is corrected for the number of rows. A round of turns has one value, their median, because its
servers were started once. The test cannot distinguish a change of the machine
between the races from one of the servers. If both races measured the ceiling, this drift is known,
and can be removed: shares of the ceiling are compared instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import median

from bolide.lab.matching import fits
from bolide.lab.report.summary import Figure, Race, Result
from bolide.lab.stats.interval import Interval, median_interval
from bolide.lab.stats.paired_test import LEVEL, ROUNDS_MIN, adjusted
from bolide.lab.stats.ratio import by_round, geometric_mean, paired

THRESHOLD = 0.03
"""The smallest relative change that is reported: equal races differ by less."""

DRIFT_MAX = 0.01
"""Change of the ceiling's speed from which on rates of two races are not of the same machine."""

FASTER, SLOWER, SAME = "faster", "slower", "no change"
FAILS, WORKS, UNKNOWN = "now fails", "now works", "unknown"
BAD = (SLOWER, FAILS)


@dataclass(frozen=True, slots=True)
class Change:
    """One contestant at one workload, in both races."""

    study: str
    workload: str
    contestant: str
    before: Interval | None
    after: Interval | None
    ratio: Interval | None
    """After by before, round by round; of shares of the ceiling if `is_relative`."""
    p_value: float | None
    """Probability of a row that differs as much if none of all rows differed; None if there are
    fewer than ROUNDS_MIN common rounds."""
    is_relative: bool
    is_noisy: bool
    """Whether other work took processor time in a round of either race."""
    verdict: str

    @property
    def is_bad(self) -> bool:
        """Whether it is a regression."""
        return self.verdict in BAD


def changes(
    before: Race,
    after: Race,
    *,
    threshold: float = THRESHOLD,
    is_relative: bool = False,
    only: Collection[str] = (),
) -> list[Change]:
    """Compare what both races have measured; `only` these contestants (NAME or PREFIX*), if any.

    `threshold` is a share (0.03 is 3 %); the floors of the races raise it. With `is_relative`,
    rates are first divided by those of the ceiling in the same round.
    """
    threshold = max(threshold, before.floor or 0.0, after.floor or 0.0)
    old = _by_name(before)
    pairs = [
        (old[result.study.name], result, key)
        for result in after.results
        if result.study.name in old
        for key, figure in result.figures.items()
        if key in old[result.study.name].figures
        and figure.contestant.role != "ceiling"
        and not figure.contestant.copy_of
        and (not only or any(fits(key[1], wanted) for wanted in only))
    ]
    ratios = [
        by_round(_values(later, key, is_relative), _values(earlier, key, is_relative))
        for earlier, later, key in pairs
    ]
    chances = adjusted([{n: math.log(ratio) for n, ratio in row.items()} for row in ratios])
    return [
        _change(pair, row, chance, threshold, is_relative=is_relative)
        for pair, row, chance in zip(pairs, ratios, chances, strict=True)
    ]


def _by_name(race: Race) -> dict[str, Result]:
    return {result.study.name: result for result in race.results}


def drift(before: Race, after: Race) -> float | None:
    """Return the speed of the ceiling in the second race by that in the first one.

    The ceiling does not change, so this is how much the machine did: the median over the workloads
    that both races have. None if there is none.
    """
    old = _by_name(before)
    ratios = []
    for result in after.results:
        for workload in result.study.workloads if result.study.name in old else ():
            earlier = old[result.study.name].ceiling(workload.name)
            later = result.ceiling(workload.name)
            if earlier and later and (found := paired(later.by_round, earlier.by_round)):
                ratios.append(found.middle)
    return median(ratios) if ratios else None


def _change(
    pair: tuple[Result, Result, tuple[str, str]],
    ratios: dict[int, float],
    chance: float,
    threshold: float,
    *,
    is_relative: bool,
) -> Change:
    earlier, later, key = pair
    one, two = earlier.figures[key], later.figures[key]
    ratio = median_interval([*ratios.values()])
    p_value = chance if len(ratios) >= ROUNDS_MIN else None
    return Change(
        study=later.study.name,
        workload=key[0],
        contestant=key[1],
        before=one.rate,
        after=two.rate,
        ratio=ratio,
        p_value=p_value,
        is_relative=is_relative,
        is_noisy=one.is_noisy or two.is_noisy,
        verdict=_verdict(one, two, ratio, p_value, threshold),
    )


def _values(result: Result, key: tuple[str, str], is_relative: bool) -> dict[int, float]:
    figure = result.figures[key]
    return result.of_ceiling_by_round(figure) if is_relative else figure.by_round


def _verdict(
    before: Figure, after: Figure, ratio: Interval | None, p_value: float | None, threshold: float
) -> str:
    """Return the verdict: a change exceeds the threshold, and chance hardly explains it."""
    if before.valid and not after.valid:
        return FAILS
    if after.valid and not before.valid:
        return WORKS
    if ratio is None or p_value is None or before.is_mostly_noisy or after.is_mostly_noisy:
        return UNKNOWN
    if p_value <= LEVEL and ratio.middle > 1 + threshold:
        return FASTER
    if p_value <= LEVEL and ratio.middle < 1 / (1 + threshold):
        return SLOWER
    return SAME


def overall(found: Iterable[Change]) -> float | None:
    """Return the geometric mean of the ratios; None if there is none."""
    return geometric_mean([each.ratio.middle for each in found if each.ratio])
