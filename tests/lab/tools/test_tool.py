"""What tools that check no content are held to."""

from __future__ import annotations

import pytest

from bolide.lab.tools.load import Load
from bolide.lab.tools.tool import wrong_bytes

SLOW = Load("http://127.0.0.1:1/", connections=10_000, response_bytes=120.0)
"""Connections with three responses each."""


@pytest.mark.parametrize(
    ("size", "lost", "cut", "is_wrong"),
    [
        (120.0, 0, 0, False),
        (118.1, 0, 0, False),
        (117.9, 0, 0, True),  # no tool counts a response of which it has only a part
        (80.0, 0, 0, True),
        (161.9, 0, 0, False),  # a part of another response on each connection
        (162.1, 0, 0, True),
        (201.9, 10_000, 0, False),
        (202.1, 10_000, 0, True),
        (78.1, 0, 10_000, False),  # as webbench does
        (77.9, 0, 10_000, True),
    ],
)
def test_fewer_bytes_are_another_content(size: float, lost: int, cut: int, is_wrong: bool) -> None:
    found = wrong_bytes(SLOW, size * 30_000, 30_000, lost=lost, cut=cut)
    assert (found is not None) is is_wrong
    if found:
        assert found == (
            f"responses had {size:,.0f} bytes on average, heads included, instead of the 120 of"
            " the verified one"
        )


def test_a_length_that_is_not_known_is_not_compared() -> None:
    assert wrong_bytes(Load("http://127.0.0.1:1/"), 5.0, 1) is None
    assert wrong_bytes(SLOW, 0.0, 0) is None
