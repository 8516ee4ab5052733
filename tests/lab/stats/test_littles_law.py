"""Little's law, with the figures of a server that served five of a hundred connections."""

from __future__ import annotations

import pytest

from bolide.lab.stats.littles_law import complete_share, contradicts, in_flight, is_starved


def test_five_of_a_hundred() -> None:
    flying = in_flight(51_032.0, 96.0)
    assert flying == pytest.approx(4.9, abs=0.01)
    assert contradicts(flying, 100) and is_starved(flying, 100, is_tool_busy=True)
    assert not contradicts(flying, 5)


def test_batches_are_in_flight_where_a_tool_times_batches() -> None:
    assert in_flight(240_000.0, 10_000.0, batch=24) == pytest.approx(100)


@pytest.mark.parametrize(("rate", "mean"), [(None, 5.0), (5.0, None), (0.0, 5.0), (5.0, 0.0)])
def test_what_is_unknown_is_no_number(rate: float | None, mean: float | None) -> None:
    assert in_flight(rate, mean) is None


@pytest.mark.parametrize(
    ("flying", "is_contradiction", "is_few", "is_few_for_a_busy_tool"),
    [
        (None, False, False, False),
        (100.0, False, False, False),
        (119.9, False, False, False),
        (120.1, True, False, False),
        (80.1, False, False, False),
        (79.9, True, False, False),
        (50.0, True, False, False),
        (49.9, True, True, False),
        (25.0, True, True, False),
        (24.9, True, True, True),
    ],
)
def test_thresholds(
    flying: float | None, is_contradiction: bool, is_few: bool, is_few_for_a_busy_tool: bool
) -> None:
    assert contradicts(flying, 100) is is_contradiction
    assert is_starved(flying, 100, is_tool_busy=False) is is_few
    assert is_starved(flying, 100, is_tool_busy=True) is is_few_for_a_busy_tool


@pytest.mark.parametrize("rounds", [0.5, 1.0, 1.5, 2.0, 3.25, 10.0])
def test_what_a_window_counts_of_connections_that_are_served_in_turn(rounds: float) -> None:
    """A server takes 0.01 s for each of 100 connections; the window ends after these rounds."""
    window_s = rounds * 100 * 0.01
    latencies_s = [0.01 * min(100, number) for number in range(1, round(rounds * 100) + 1)]
    mean_us = sum(latencies_s) / len(latencies_s) * 1e6
    flying = in_flight(len(latencies_s) / window_s, mean_us)
    assert flying == pytest.approx(100 * complete_share(rounds), abs=1)
