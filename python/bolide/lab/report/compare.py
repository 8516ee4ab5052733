"""Compares two races of the same studies: faster, slower, or no change. It prints nothing.

Rounds of different races are not paired. If both races measured the ceiling, the drift of the
machine can be removed by comparing shares of the ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bolide.lab.report.summary import Figure, Race, Result
from bolide.lab.stats.interval import Interval
from bolide.lab.stats.ratio import geometric_mean, unpaired

THRESHOLD = 0.03
"""The smallest relative change that is reported: equal races differ by less."""

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
    """After by before; relative to the ceiling if `is_relative`."""
    is_relative: bool
    verdict: str

    @property
    def is_bad(self) -> bool:
        """Whether it is a regression."""
        return self.verdict in BAD


def changes(
    before: Race, after: Race, *, threshold: float = THRESHOLD, is_relative: bool = False
) -> list[Change]:
    """Compare what both races have measured.

    `threshold` is a share (0.03 is 3 %). With `is_relative`, rates are first divided by those of
    the ceiling in the same round.
    """
    old = {result.study.name: result for result in before.results}
    found = []
    for result in after.results:
        earlier = old.get(result.study.name)
        if earlier is None:
            continue
        for key, figure in result.figures.items():
            if key in earlier.figures and figure.contestant.role != "ceiling":
                pair = (earlier, result)
                found.append(_change(pair, key, threshold, is_relative=is_relative))
    return found


def _change(
    pair: tuple[Result, Result], key: tuple[str, str], threshold: float, *, is_relative: bool
) -> Change:
    earlier, later = pair
    one, two = earlier.figures[key], later.figures[key]
    values = _values(earlier, one, is_relative), _values(later, two, is_relative)
    ratio = unpaired(values[1], values[0])
    return Change(
        study=later.study.name,
        workload=key[0],
        contestant=key[1],
        before=one.rate,
        after=two.rate,
        ratio=ratio,
        is_relative=is_relative,
        verdict=_verdict(one, two, ratio, threshold),
    )


def _values(result: Result, figure: Figure, is_relative: bool) -> list[float]:
    if not is_relative:
        return list(figure.by_round.values())
    ceiling = result.ceiling(figure.workload.name)
    limit = ceiling.by_round if ceiling else {}
    return [rate / limit[n] for n, rate in figure.by_round.items() if n in limit]


def _verdict(before: Figure, after: Figure, ratio: Interval | None, threshold: float) -> str:
    """Return the verdict: a change exceeds the threshold with its whole interval on one side."""
    if before.valid and not after.valid:
        return FAILS
    if after.valid and not before.valid:
        return WORKS
    if ratio is None or ratio.low is None or ratio.high is None:
        return UNKNOWN
    if ratio.low > 1 and ratio.middle > 1 + threshold:
        return FASTER
    if ratio.high < 1 and ratio.middle < 1 - threshold:
        return SLOWER
    return SAME


def overall(found: Iterable[Change]) -> float | None:
    """Return the geometric mean of the ratios; None if there is none."""
    return geometric_mean([each.ratio.middle for each in found if each.ratio])
