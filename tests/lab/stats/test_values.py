"""Statistics against values from scipy 1.17 and numpy, which no test needs installed.

Intervals: `scipy.stats.binom.cdf`. Variation: `scipy.stats.variation(ddof=1)`.
"""

from __future__ import annotations

import pytest

from bolide.lab.stats.histogram import merge, percentile, total
from bolide.lab.stats.interval import coverage, depth, median_interval
from bolide.lab.stats.noise import is_unstable, variation
from bolide.lab.stats.ratio import by_start, deviation, geometric_mean, paired, start_of

TWO = [5.0, 7.0]
THREE = [100.0, 104.0, 98.0]
FIVE = [231380.25, 227506.16, 218400.0, 229871.5, 190020.75]
NINE = [10.1, 10.4, 9.8, 10.0, 10.2, 14.9, 9.9, 10.3, 10.05]
EVEN = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


@pytest.mark.parametrize(
    ("values", "middle", "low", "high", "label"),
    [
        (TWO, 6.0, 5.0, 7.0, "range of 2 rounds"),
        (THREE, 100.0, 98.0, 104.0, "range of 3 rounds"),
        (FIVE, 227506.16, 190020.75, 231380.25, "range of 5 rounds"),
        (EVEN, 6.0, 1.0, 32.0, "96.8 % interval"),
        (NINE, 10.1, 9.9, 10.4, "96 % interval"),
    ],
)
def test_median_intervals(
    values: list[float], middle: float, low: float, high: float, label: str
) -> None:
    found = median_interval(values)
    assert found is not None
    assert (found.middle, found.low, found.high) == pytest.approx((middle, low, high))
    assert found.count == len(values)
    assert (found.label, found.is_range) == (label, len(values) < 6)


@pytest.mark.parametrize(
    ("count", "rank", "share"),
    [
        (2, 1, 0.5),
        (3, 1, 0.75),
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (7, 1, 0.984375),
        (8, 1, 0.9921875),
        (9, 2, 0.9609375),
        (20, 6, 0.95861053),
        (100, 40, 0.96479980),
    ],
)
def test_coverage_of_order_statistics(count: int, rank: int, share: float) -> None:
    """As `scipy.stats.quantile_test(...).confidence_interval` has it (1 - 2 * binom.cdf)."""
    assert depth(count) == rank
    assert coverage(count, rank) == pytest.approx(share)
    found = median_interval([float(each) for each in range(count)])
    assert found is not None and found.coverage == pytest.approx(share)


def test_one_value_has_no_interval_and_none_has_no_median() -> None:
    found = median_interval([3.0])
    assert found is not None
    assert (found.middle, found.low, found.high, found.reach) == (3.0, None, None, None)
    assert (found.coverage, found.label) == (None, "")
    assert median_interval([]) is None


@pytest.mark.parametrize(
    ("values", "reach"), [(THREE, 0.04), ([100.0, 96.0, 102.0], 0.04), ([1.0, -1.0], None)]
)
def test_an_interval_reaches_as_far_as_its_farther_end(
    values: list[float], reach: float | None
) -> None:
    found = median_interval(values)
    assert found is not None
    assert found.reach == (None if reach is None else pytest.approx(reach))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (TWO, 0.23570226039551587),
        (THREE, 0.030348183410303566),
        (FIVE, 0.07837167973353981),
        (NINE, 0.15177720284768662),
        (EVEN, 1.12968600778733),
        ([1.0], None),
        ([1.0, -1.0], None),
    ],
)
def test_variation(values: list[float], expected: float | None) -> None:
    assert variation(values) == (expected if expected is None else pytest.approx(expected))


def test_unstable_is_above_five_percent() -> None:
    assert [is_unstable(each) for each in (THREE, FIVE, NINE, [1.0])] == [False, True, True, False]


def test_paired_ratio() -> None:
    upper = dict(enumerate([100.0, 110.0, 90.0, 105.0, 98.0]))
    lower = dict(enumerate([50.0, 52.0, 47.0, 51.0, 50.0]))
    found = paired(upper, lower)
    assert found is not None
    assert (found.middle, found.low, found.high) == pytest.approx((2.0, 1.9148936, 2.1153846))
    assert paired({1: 5.0}, {2: 5.0}) is None
    assert paired({1: 5.0}, {1: 0.0}) is None


def test_paired_rounds_take_drift_out() -> None:
    """The machine halves its speed: the medians' ratio is lost, the rounds' is not."""
    upper = {0: 200.0, 1: 100.0, 2: 200.0, 3: 100.0}
    found = paired(upper, {each: value / 1.25 for each, value in upper.items()})
    assert found is not None
    assert (found.low, found.middle, found.high) == pytest.approx((1.25, 1.25, 1.25))


def test_turns_of_a_start_have_one_value() -> None:
    turns = {1: 10.0, 2: 30.0, 3: 20.0, 4: 7.0, 9: 5.0, 8: 1.0}
    assert by_start(turns, 3) == {1: 20.0, 2: 7.0, 3: 3.0}
    assert by_start(turns, 1) == turns
    assert [start_of(each, 4) for each in (1, 4, 5, 20)] == [1, 1, 2, 5]
    assert start_of(0, 1) == 0


def test_deviation() -> None:
    assert deviation([0.8, 1.1]) == pytest.approx(0.25)
    assert deviation([0.95, 1.1]) == pytest.approx(0.1)
    assert deviation([]) is deviation([0.0]) is None


def test_geometric_mean() -> None:
    assert geometric_mean(THREE) == pytest.approx(100.63594713918444)
    assert geometric_mean(EVEN) == pytest.approx(5.65685424949238)
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 0.0]) is None


DRAWN = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 4), (0.75, 7), (0.9, 9), (0.95, 9)])
def test_percentiles_of_merged_histograms(share: float, expected: float) -> None:
    """As `numpy.quantile(method="inverted_cdf")` of all values together."""
    first = merge([[(float(value), 1)] for value in DRAWN[:7]])
    second = merge([[(float(value), 1)] for value in DRAWN[7:]])
    merged = merge([first, second])
    assert total(merged) == 20
    assert percentile(merged, share) == expected


def test_merging_is_no_average() -> None:
    fast, slow = [(1.0, 99_000), (2.0, 1_000)], [(1000.0, 1_000)]
    assert percentile(fast, 0.99) == 1.0
    assert percentile(merge([fast, slow]), 0.99) == 2.0
    assert percentile(merge([fast, slow]), 0.995) == 1000.0


def test_too_few_values_have_no_high_percentile() -> None:
    rows = [(1.0, 50), (9.0, 49)]
    assert percentile(rows, 0.99) is None  # of 99 values
    assert percentile([(1.0, 100)], 0.99) == 1.0
    assert percentile([], 0.5) is None
