"""Clocks of other machines: how far they are from ours, and how certain that is.

A clock is read through a message and its reply. The reading belongs to some moment between both, so
the offset is known to half the round trip. Of several samples the one with the shortest round trip
is used: what delays messages lengthens it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass


def now_ns() -> int:
    """Return the monotonic clock of this machine, which no adjustment of the time changes.

    It is the generator's clock too.
    """
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: our clock before and after, and the other one's between."""

    before_ns: int
    theirs_ns: int
    after_ns: int

    @property
    def round_trip_ns(self) -> int:
        """How long the message and its reply took."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a clock is ahead of ours: `ahead_ns`, at most `uncertainty_ns` more or less."""

    ahead_ns: int
    uncertainty_ns: int
    at_ns: int = 0
    """When it was read, in our time."""

    def theirs_ns(self, ours_ns: int) -> int:
        """Return their time at a time of ours."""
        return ours_ns + self.ahead_ns

    def apart_ns(self, other: Offset) -> int:
        """Return by how much the clock must have moved between both; 0 if it need not have."""
        certain = abs(self.ahead_ns - other.ahead_ns)
        return max(0, certain - self.uncertainty_ns - other.uncertainty_ns)


def offset(samples: Iterable[Sample]) -> Offset:
    """Estimate an offset from at least one sample."""
    best = min(samples, key=lambda each: each.round_trip_ns)
    middle_ns = (best.before_ns + best.after_ns) // 2
    return Offset(best.theirs_ns - middle_ns, -(-best.round_trip_ns // 2), middle_ns)
