"""The exact paired test against an enumeration of all throws, written independently."""

from __future__ import annotations

import math
import random
from itertools import product
from statistics import median

import pytest

from bolide.lab.stats import paired_test
from bolide.lab.stats.paired_test import adjusted

UP = dict(enumerate([0.05, 0.06, 0.05, 0.07, 0.06, 0.05, 0.06]))
MIXED = dict(enumerate([0.05, -0.06, 0.05, -0.07, 0.06, -0.05, 0.01]))


def enumerated(rows: list[dict[int, float]], rounds: int) -> list[float]:
    """Return the corrected p-values by all 2**rounds throws."""
    squares = [sum(value**2 for value in row.values()) for row in rows]
    usual = median(total / len(row) for total, row in zip(squares, rows, strict=True))

    def statistics(signs: tuple[int, ...]) -> list[float]:
        return [
            abs(sum(signs[n] * value for n, value in row.items()))
            / math.sqrt(total + usual * len(row))
            for total, row in zip(squares, rows, strict=True)
        ]

    measured = statistics((1,) * rounds)
    largest = [max(statistics(signs)) for signs in product((1, -1), repeat=rounds)]
    return [sum(each >= value - 1e-9 for each in largest) / len(largest) for value in measured]


@pytest.mark.parametrize("rounds", [1, 2, 5, 6, 7, 8])
def test_as_all_throws(rounds: int) -> None:
    dice = random.Random(rounds)  # noqa: S311 - statistics, not a secret
    rows = [{each: dice.gauss(0.01, 0.02) for each in range(rounds)} for _ in range(9)]
    if rounds > 2:
        del rows[3][0], rows[4][1]
    assert adjusted(rows) == pytest.approx(enumerated(rows, rounds))


def test_a_single_row_has_the_p_value_of_the_sign_test() -> None:
    assert adjusted([UP]) == [2 / 2**7]
    assert adjusted([{n: UP[n] for n in range(6)}]) == [2 / 2**6]
    assert adjusted([{n: UP[n] for n in range(5)}]) == [2 / 2**5]  # above the level
    assert adjusted([MIXED])[0] > 0.5


def test_no_difference_and_no_rows() -> None:
    assert adjusted([]) == []
    assert adjusted([dict.fromkeys(range(7), 0.0)]) == [1.0]
    assert adjusted([{}, {}]) == [1.0, 1.0]
    assert adjusted([UP, {}])[1] == 1.0


def test_many_rounds_are_drawn_and_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(3)  # noqa: S311 - statistics, not a secret
    rows = [{each: dice.gauss(0.005, 0.02) for each in range(12)} for _ in range(5)]
    exact = adjusted(rows)
    monkeypatch.setattr(paired_test, "EXACT_MAX", 11)
    drawn = adjusted(rows)
    assert drawn == adjusted(rows)
    assert drawn == pytest.approx(exact, abs=0.03)
    assert adjusted([dict.fromkeys(range(20), 0.1)]) == pytest.approx([1 / paired_test.THROWS])
