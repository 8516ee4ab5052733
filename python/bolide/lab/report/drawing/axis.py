"""An axis of a chart: the positions of values, and the ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bolide.lab.report import quantity

LOG_FROM = 30
"""Ratio of values from which on the fitting scale is logarithmic."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to pixels; the unit is count, bytes, time (us) or share."""

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
        """Return the axis on which these values extend from one pixel to another."""
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
        """Return the pixel of a value."""
        share = value / self.high
        if self.is_log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Return round values; every second one if there are too many."""
        if self.is_log and self.unit == "bytes":
            step = next((step for step, _ in quantity.SIZES if self.high >= step), 1)
            found = [tick * step for tick in log_ticks(self.low / step, self.high / step)]
        elif self.is_log:
            found = log_ticks(self.low, self.high)
        elif self.unit == "bytes":
            found = size_ticks(self.high)
        else:
            found = round_ticks(0, self.high)
        while len(found) > self.ticks_max:
            found = found[::2]
        return found

    def label(self, value: float) -> str:
        """Return the label of a value."""
        return quantity.of_unit(value, self.unit)


def round_ticks(low: float, high: float) -> list[float]:
    """Return three to six round values from `low` to `high`."""
    if high <= low:
        return [low]
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def size_ticks(high: float) -> list[float]:
    """Return round numbers of a suitable unit, from 0 to `high` bytes."""
    step = next((step for step, _ in quantity.SIZES if high >= step), 1)
    return [tick * step for tick in round_ticks(0, high / step)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten from `low` to `high`, with some values between them if they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    between = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    every = [each * 10.0**power for power in range(first, last + 1) for each in between]
    return [value for value in every if low * 0.999 <= value <= high * 1.001]
