"""What processes hold, again and again, and whether it grows."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from faults.soak import counts, trend

GROWTH_MAX = {"KiB": 2048.0, "descriptors": 3.0, "threads": 0.5, "tasks": 3.0}
"""By how much each may grow in the time that counts. Clients come and go, so descriptors and tasks
are never level; memory is taken in pieces, and not all that is freed returns to the system."""
WARM_UP_PART = 0.25
"""This part of the time does not count: tables and the heap reach their size in it."""
SAMPLES_MIN = 10

Sample = tuple[float, float]


def held_by(pid: int, ledger: Path) -> dict[str, float]:
    """Return what a process holds; empty if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return {}
    values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if "RssAnon" not in values:  # its supervisor has not noticed yet
        return {}
    held = {
        # Pages of files are shared, and come as they are first used.
        "KiB": float(values["RssAnon"].split()[0]),
        "descriptors": float(descriptors),
        "threads": float(values["Threads"]),
    }
    counted = counts.read(ledger / str(pid))
    if "tasks" in counted:
        held["tasks"] = float(counted["tasks"])
    return held


@dataclass(frozen=True)
class Process:
    """A process that is watched."""

    name: str
    pid: int
    ledger: Path


class Samples:
    """All samples of a run."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes
        self._of: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        self.first = {each.name: held_by(each.pid, each.ledger) for each in processes}
        """What each held before the traffic."""

    def take(self, at_s: float) -> list[str]:
        """Take a sample of each; return the names of those that have ended."""
        ended = []
        for each in self._processes:
            held = held_by(each.pid, each.ledger)
            if not held:
                ended.append(each.name)
            for quantity, value in held.items():
                self._of[each.name, quantity].append((at_s, value))
        return ended

    def trends(self, whole_s: float) -> dict[tuple[str, str], trend.Trend]:
        """Return the trend of each quantity of each process, without the warm-up."""
        found = {}
        for key, samples in self._of.items():
            counted = [each for each in samples if each[0] >= whole_s * WARM_UP_PART]
            if len(counted) >= SAMPLES_MIN:
                found[key] = trend.of(counted)
        return found

    def ends(self, name: str, quantity: str) -> tuple[float, float]:
        """Return the first and the last value."""
        samples = self._of[name, quantity]
        return samples[0][1], samples[-1][1]

    def remain(self) -> list[str]:
        """Return which descriptors, threads and tasks are left over after the traffic."""
        left = []
        for each in self._processes:
            now = held_by(each.pid, each.ledger)
            for quantity in ("descriptors", "tasks"):
                before, after = self.first[each.name].get(quantity), now.get(quantity)
                if before is not None and after is not None and after > before:
                    left.append(f"{each.name}: {after:.0f} {quantity} after, {before:.0f} before")
        return left


def grows(trends: dict[tuple[str, str], trend.Trend]) -> list[str]:
    """Return what grows by more than it may."""
    return [
        f"{name}: {quantity} grow by {found.growth:.1f} in {found.seconds:.0f} s "
        f"({found.low * 3600:.2f} to {found.high * 3600:.2f} per hour)"
        for (name, quantity), found in trends.items()
        if found.exceeds(GROWTH_MAX[quantity])
    ]
