"""An axis of a chart: where a value stands, and the ticks.

`assets/axis.js` does the same in the page for the contestants that its filter leaves, from the
values that marks carry (`data-v`); a test holds the two to the same drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bolide.lab.report import words

LOG_FROM = 30
"""Values so many times apart stand on a logarithmic axis, where the scale is the fitting one."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where values stand between two pixels; the unit is count, bytes, time (us) or share."""

    start: float
    end: float
    low: float
    high: float
    unit: str
    scale: str
    """linear, log or fitting"""
    is_log: bool
    ticks_max: int

    @classmethod
    def of(
        cls,
        values: Iterable[float | None],
        ends: tuple[float, float],
        unit: str,
        scale: str = "linear",
        ticks_max: int = 8,
    ) -> Axis:
        """Make the axis on which these values reach from one end to the other, in pixels."""
        known = [value for value in values if value is not None]
        positive = [value for value in known if value > 0]
        low, high, is_log = 0.0, max(known, default=0) or 1.0, False
        if positive:
            is_fitting = scale == "fitting" and max(positive) / min(positive) > LOG_FROM
            is_log = scale == "log" or is_fitting
        if is_log:
            low = min(positive) / 1.25
            high = max(max(positive) * 1.15, low * 10)
        return cls(*ends, low, high, unit, scale, is_log, ticks_max)

    def at(self, value: float) -> float:
        """Give the pixel of a value."""
        share = value / self.high
        if self.is_log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Give round values; of too many each second one."""
        if self.is_log:
            found = words.log_ticks(self.low, self.high)
        elif self.unit == "bytes":
            found = words.size_ticks(self.high)
        else:
            found = words.ticks(0, self.high)
        while len(found) > self.ticks_max:
            found = found[::2]
        return found

    def said(self, value: float) -> str:
        """Write a value of the axis."""
        return words.of_unit(value, self.unit)

    @property
    def data(self) -> dict[str, object]:
        """What the page's script must know of it."""
        found = {"from": self.start, "to": self.end, "unit": self.unit, "scale": self.scale}
        return {**found, "ticks": self.ticks_max}


def values(*found: float) -> str:
    """Give the attribute with the values of an element, in the order of its coordinates."""
    return f' data-v="{" ".join(f"{value:.6g}" for value in found)}"'
