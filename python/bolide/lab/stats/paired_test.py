"""An exact test of paired rounds, corrected for the number of rows that are looked at.

Each row has a difference for each round, such as the logarithm of the ratio of two rates. If there
is no difference, the two values of a round might as well have been exchanged, so the signs of a
round's differences are those of a coin. The coin is thrown for whole rounds, since what slows a
round slows all of its rows. A row's p-value is the share of all throws in which the *largest*
statistic of any row reaches that of this row (Westfall and Young, 1993: single-step maxT). With
that, the probability that any of the rows is wrongly called different is at most the level, however
many rows there are and however they depend on each other.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

LEVEL = 0.05
ROUNDS_MIN = 6
"""With fewer rounds no p-value is below LEVEL: 2 of 2**5 throws have equal signs, 6 %."""
EXACT_MAX = 13
"""Up to this many rounds all throws are computed; with more, THROWS random ones."""
THROWS = 4000
_TOLERANCE = 1e-9


def adjusted(rows: Sequence[Mapping[int, float]]) -> list[float]:
    """Return the corrected p-value of each row, whose differences are given by round.

    Rows may lack rounds. The same rows always have the same p-values.
    """
    rounds = sorted({each for row in rows for each in row})
    scales = _scales(rows)
    if not any(scales):
        return [1.0] * len(rows)
    differences = [
        [row.get(each, 0.0) / scale if scale else 0.0 for each in rounds]
        for row, scale in zip(rows, scales, strict=True)
    ]
    largest = sorted(
        max(map(abs, sums))
        for sums in (_exact(differences) if len(rounds) <= EXACT_MAX else _drawn(differences))
    )
    return [_share_from(largest, abs(sum(row))) for row in differences]


def _scales(rows: Sequence[Mapping[int, float]]) -> list[float]:
    """Return what the sum of each row is divided by: the root of its sum of squares.

    Half of all rows differ little from round to round; the usual square is added to each, so that a
    row that happens to be very steady is not preferred. The signs do not change it.
    """
    squares = [sum(value**2 for value in row.values()) for row in rows]
    means = [total / len(row) for total, row in zip(squares, rows, strict=True) if row]
    usual = median(means) if means else 0.0
    return [math.sqrt(total + usual * len(row)) for total, row in zip(squares, rows, strict=True)]


def _exact(rows: list[list[float]]) -> Iterator[list[float]]:
    """Yield the sums of all rows for every throw but for exchanging all signs, which is the same.

    Each throw differs from the one before in one sign (a Gray code).
    """
    columns = list(zip(*rows, strict=True))
    signs = [1.0] * len(columns)
    sums = [sum(row) for row in rows]
    yield sums
    for number in range(1, 2 ** (len(columns) - 1)):
        place = (number & -number).bit_length() - 1
        signs[place] = -signs[place]
        step = 2 * signs[place]
        sums = [total + step * value for total, value in zip(sums, columns[place], strict=True)]
        yield sums


def _drawn(rows: list[list[float]]) -> Iterator[list[float]]:
    """Yield the sums of all rows for random throws; the first is what was measured."""
    yield [sum(row) for row in rows]
    dice = random.Random(len(rows[0]))  # noqa: S311 - statistics, not a secret
    for _ in range(THROWS - 1):
        signs = dice.choices((-1.0, 1.0), k=len(rows[0]))
        yield [sum(map(float.__mul__, signs, row)) for row in rows]


def _share_from(ordered: Sequence[float], value: float) -> float:
    """Return the share of values that reach a value."""
    return 1 - bisect_left(ordered, value - _TOLERANCE) / len(ordered)
