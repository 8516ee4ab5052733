"""Simulations: how often an interval has the true value, and how often equal races differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median

import pytest

from bolide.lab.stats.interval import CONFIDENCE, ROUNDS_MIN, coverage, depth, median_interval
from bolide.lab.stats.paired_test import LEVEL, adjusted
from bolide.lab.stats.ratio import by_start, paired
from bolide.lab.stats.stopping import is_narrow, rounds_needed
from bolide.lab.until import ROUNDS_MAX

pytestmark = pytest.mark.slow

Draw = Callable[[random.Random], float]


def _disturbed(dice: random.Random) -> float:
    """Return a rate that is 30 % lower in every tenth round."""
    return 100 * dice.gauss(1, 0.01) * (0.7 if dice.random() < 0.1 else 1)


def _true_median(draw: Draw) -> float:
    dice = random.Random(0)  # noqa: S311 - statistics, not a secret
    return median(draw(dice) for _ in range(200_001))


DRAWS: dict[str, Draw] = {
    "normal": lambda dice: dice.gauss(100, 1),
    "skewed": lambda dice: dice.lognormvariate(0, 1),
    "disturbed": _disturbed,
}
TIMES = 4000


def _error(share: float, times: int) -> float:
    """Return four standard errors of a share that was counted so many times."""
    return 4 * math.sqrt(share * (1 - share) / times)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 9, 12, 20])
def test_an_interval_has_the_median_as_often_as_it_says(name: str, count: int) -> None:
    draw, true = DRAWS[name], _true_median(DRAWS[name])
    dice = random.Random(f"{name} {count}")  # noqa: S311 - statistics, not a secret
    hits = 0
    for _ in range(TIMES):
        found = median_interval([draw(dice) for _ in range(count)])
        assert found and found.low is not None and found.high is not None
        hits += found.low <= true <= found.high
        stated = found.coverage
    assert stated is not None
    assert hits / TIMES == pytest.approx(stated, abs=_error(stated, TIMES))
    assert (stated >= CONFIDENCE) == (count >= ROUNDS_MIN)


def test_a_ratio_of_paired_rounds_has_the_true_one_despite_drift() -> None:
    dice = random.Random(7)  # noqa: S311 - statistics, not a secret
    hits = 0
    for _ in range(TIMES):
        speeds = {each: dice.uniform(0.5, 1.5) for each in range(7)}
        upper = {each: 125 * speed * dice.gauss(1, 0.02) for each, speed in speeds.items()}
        lower = {each: 100 * speed * dice.gauss(1, 0.02) for each, speed in speeds.items()}
        found = paired(upper, lower)
        assert found and found.low is not None and found.high is not None
        hits += found.low <= 1.25 <= found.high
    stated = coverage(7, depth(7))
    assert hits / TIMES == pytest.approx(stated, abs=_error(stated, TIMES) + 0.002)


@pytest.mark.parametrize(("spread", "least"), [(1.5, 0.95), (3.0, 0.93), (5.0, 0.88)])
def test_rounds_until_an_interval_is_narrow_do_not_make_it_wrong(
    spread: float, least: float
) -> None:
    """Stopping as soon as it is narrow favours narrow intervals, which misses the median."""
    dice = random.Random(f"until {spread}")  # noqa: S311 - statistics, not a secret
    hits = narrow = 0
    while narrow < 1000:
        values = [dice.gauss(100, spread) for _ in range(7)]
        while not is_narrow(values, 0.02) and rounds_needed(values, 0.02) <= ROUNDS_MAX:
            values.append(dice.gauss(100, spread))
        if not is_narrow(values, 0.02):
            continue  # the race names it as too wide
        found = median_interval(values)
        assert found and found.low is not None and found.high is not None
        narrow += 1
        hits += found.low <= 100 <= found.high
    assert hits / narrow >= least


TURNS = 4


def _turns(dice: random.Random, starts: int) -> dict[int, float]:
    """Return logarithms of ratios; starts differ by 3 %, turns of one start by 2 % (deviation)."""
    found = {}
    for start in range(starts):
        drawn = dice.gauss(0, 0.03)
        for turn in range(TURNS):
            found[start * TURNS + turn + 1] = drawn + dice.gauss(0, 0.02)
    return found


@pytest.mark.parametrize("starts", [5, 7])
def test_starts_that_differ_are_covered_by_one_value_each(starts: int) -> None:
    """All turns as if they were independent: their interval misses the median far too often."""
    dice = random.Random(f"starts {starts}")  # noqa: S311 - statistics, not a secret
    hits = hits_of_turns = 0
    for _ in range(TIMES):
        turns = _turns(dice, starts)
        found = median_interval([*by_start(turns, TURNS).values()])
        pooled = median_interval([*turns.values()])
        assert found and found.low is not None and found.high is not None and pooled
        assert pooled.low is not None and pooled.high is not None
        hits += found.low <= 0 <= found.high
        hits_of_turns += pooled.low <= 0 <= pooled.high
    stated = coverage(starts, depth(starts))
    assert hits / TIMES == pytest.approx(stated, abs=_error(stated, TIMES))
    assert hits_of_turns / TIMES < 0.85


def test_equal_races_of_turns_differ_in_one_comparison_of_twenty() -> None:
    """Signs of turns are not those of separate coins; those of the starts' medians are."""
    dice = random.Random("turns")  # noqa: S311 - statistics, not a secret
    times = 300
    alarms = alarms_of_turns = 0
    for _ in range(times):
        rows = [_turns(dice, 7) for _ in range(10)]
        alarms += min(adjusted([by_start(each, TURNS) for each in rows])) <= LEVEL
    for _ in range(20):
        rows = [_turns(dice, 7) for _ in range(10)]
        alarms_of_turns += min(adjusted(rows)) <= LEVEL
    assert alarms / times <= LEVEL + _error(LEVEL, times)
    assert alarms_of_turns / 20 > 0.5


def _races(dice: random.Random, rows: int, rounds: int) -> list[dict[int, float]]:
    """Return the logarithms of the ratios of two equal races; some rows are noisier than others."""
    found = []
    for row in range(rows):
        draw = (_disturbed, _noisy, _steady, _steady)[row % 4]
        found.append({each: math.log(draw(dice) / draw(dice)) for each in range(rounds)})
    return found


def _noisy(dice: random.Random) -> float:
    return dice.gauss(1, 0.05)


def _steady(dice: random.Random) -> float:
    return dice.gauss(1, 0.01)


@pytest.mark.parametrize(("rows", "rounds", "times"), [(1, 7, 2000), (60, 7, 400), (60, 10, 60)])
def test_equal_races_differ_in_one_comparison_of_twenty_however_many_rows(
    rows: int, rounds: int, times: int
) -> None:
    dice = random.Random(f"equal {rows} {rounds}")  # noqa: S311 - statistics, not a secret
    alarms = sum(min(adjusted(_races(dice, rows, rounds))) <= LEVEL for _ in range(times))
    assert alarms / times <= LEVEL + _error(LEVEL, times)


def test_rows_that_are_slowed_together_are_no_false_alarms() -> None:
    """A round that was slow was slow for all rows, so these are not independent."""
    dice = random.Random("together")  # noqa: S311 - statistics, not a secret
    alarms = 0
    for _ in range(400):
        slow = {each: dice.gauss(0, 0.1) for each in range(7)}
        rows = [{n: each + slow[n] for n, each in row.items()} for row in _races(dice, 30, 7)]
        alarms += min(adjusted(rows)) <= LEVEL
    assert alarms / 400 <= LEVEL + _error(LEVEL, 400)


def test_a_machine_that_differs_between_races_looks_like_a_change() -> None:
    """What the test cannot know; shares of the ceiling remove it."""
    dice = random.Random("drift")  # noqa: S311 - statistics, not a secret
    alarms = alarms_relative = 0
    for _ in range(200):
        drift = dice.gauss(0, 0.02)
        rows = [{each: drift + dice.gauss(0, 0.02) for each in range(7)} for _ in range(20)]
        ceiling = {each: drift + dice.gauss(0, 0.01) for each in range(7)}
        relative = [{n: value - ceiling[n] for n, value in row.items()} for row in rows]
        alarms += _differs(rows)
        alarms_relative += _differs(relative)
    assert alarms / 200 > 0.3
    assert alarms_relative / 200 <= LEVEL + _error(LEVEL, 200)


def _differs(rows: list[dict[int, float]]) -> bool:
    """Whether any row is called different: beyond 3 %, and not by chance."""
    pairs = zip(adjusted(rows), rows, strict=True)
    return any(p <= LEVEL and abs(median(row.values())) > math.log(1.03) for p, row in pairs)


def test_a_real_difference_is_found_among_many_rows() -> None:
    dice = random.Random("real")  # noqa: S311 - statistics, not a secret
    found = 0
    for _ in range(100):
        rows = [{each: dice.gauss(0, 0.014) for each in range(7)} for _ in range(100)]
        rows[42] = {each: value + math.log(1.1) for each, value in rows[42].items()}
        found += adjusted(rows)[42] <= LEVEL
    assert found >= 95
