"""How many disturbed trials are repeated: a share of each round's."""

from __future__ import annotations

import pytest

from bolide.lab.trial.repeats import Repeats


@pytest.mark.parametrize(
    ("share", "rounds", "expected"),
    [
        (0.2, [10, 10, 10], [2, 2, 2]),
        (0.2, [5, 5, 10], [1, 1, 2]),
        (0.2, [3, 3, 3], [1, 0, 0]),
        (0.2, [1] * 10, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        (0.5, [8], [4]),
        (0.2, [4], [0]),
        (0.2, [], []),
    ],
)
def test_no_round_takes_the_repeats_of_later_ones(
    share: float, rounds: list[int], expected: list[int]
) -> None:
    repeats = Repeats(share, sum(rounds))
    found = []
    for trials in rounds:
        repeats.grant(trials)
        found.append(sum(repeats.take() for _ in range(trials)))
    assert found == expected


def test_what_a_calm_round_leaves_is_for_later_ones() -> None:
    repeats = Repeats(0.2, 30)
    for _ in range(3):
        repeats.grant(10)
    assert sum(repeats.take() for _ in range(30)) == 6
