"""How far another machine's clock is from ours."""

from __future__ import annotations

from bolide.fleet.clock import Offset, Sample, offset


def test_the_sample_with_the_shortest_round_trip_is_used() -> None:
    samples = [
        Sample(1_000, 9_000_000, 9_000),  # delayed on one way
        Sample(20_000, 3_000_020_100, 20_200),
        Sample(30_000, 3_000_039_000, 40_000),
    ]
    expected = Offset(ahead_ns=3_000_000_000, uncertainty_ns=100, at_ns=20_100)
    assert offset(samples) == expected


def test_the_true_offset_is_within_the_uncertainty_whatever_the_delays() -> None:
    for there_ns, back_ns in [(0, 1_001), (1_001, 0), (500, 501)]:
        before_ns, ahead_ns = 77, -5_000_000_000
        theirs_ns = before_ns + there_ns + ahead_ns
        found = offset([Sample(before_ns, theirs_ns, before_ns + there_ns + back_ns)])
        assert abs(found.ahead_ns - ahead_ns) <= found.uncertainty_ns


def test_a_clock_has_moved_only_by_what_the_uncertainties_leave() -> None:
    before, after = Offset(1_000, 200), Offset(1_500, 100)
    assert before.apart_ns(after) == 200
    assert before.apart_ns(Offset(1_250, 100)) == 0
    assert before.theirs_ns(50) == 1_050
