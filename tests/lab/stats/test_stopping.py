"""When an interval is narrow enough, and how many rounds it would take."""

from __future__ import annotations

import pytest

from bolide.lab.stats.stopping import is_narrow, rounds_needed

STEADY = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0]


def test_an_interval_is_narrow_to_either_side() -> None:
    assert is_narrow(STEADY, 0.01)
    assert not is_narrow(STEADY, 0.0099)
    for skewed in ([100.0] * 5 + [103.0], [100.0] * 5 + [97.0]):
        assert is_narrow(skewed, 0.03) and not is_narrow(skewed, 0.0299)


@pytest.mark.parametrize("values", [[], [100.0], [100.0] * 5])
def test_a_range_of_few_rounds_is_no_narrow_interval(values: list[float]) -> None:
    assert not is_narrow(values, 0.5)
    assert is_narrow([100.0] * 6, 0.5)


def test_rounds_needed_grow_with_the_square_of_the_precision() -> None:
    spread = [90.0, 110.0] * 4
    assert rounds_needed(spread, 0.02) == pytest.approx(4 * rounds_needed(spread, 0.04), abs=4)
    assert rounds_needed(spread, 0.02) == 173
    assert rounds_needed([100.0] * 7, 0.02) == 6
