"""Which trials of a contestant at a workload count: one rule for reports and for offered rates."""

from __future__ import annotations

from collections.abc import Collection

from bolide.lab.record import service
from bolide.lab.record.schema import Trial, Workload


def valid_of(trials: Collection[Trial], workload: Workload) -> list[Trial]:
    """Return the trials with figures: no failure, correct responses, and all connections served.

    None if at least half of them have no figure: a median of the others would hide that.
    """
    valid = [each for each in trials if each.is_valid and each.ok and each.requests_per_s]
    valid = [each for each in valid if not service.starved_in(each, workload)]
    return valid if len(valid) > len(trials) / 2 else []
