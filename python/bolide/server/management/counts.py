"""What the workers have counted, those that have ended included.

Each worker counts in a page of memory that it shares with the supervisor
(`crates/net/src/shared/numbers.rs`). When it has ended, its counters are added to a sum, so that
totals never decrease; its gauges end with it, and the page is used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import prod
from operator import add

from bolide import _core

PREFIX = "bolide_"
NANOSECONDS = 1e-9
"""Unit of the sum of a histogram, in seconds."""


@dataclass(frozen=True, slots=True)
class Family:
    """Numbers with one name, in the terms of OpenMetrics."""

    name: str
    kind: str
    """counter, gauge, histogram or info."""
    unit: str
    """With which the name ends; "" for a count."""
    help: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Their names and values."""
    bounds: tuple[float, ...] = ()
    """Of a histogram: the largest value of each bucket but the last."""

    @property
    def length(self) -> int:
        """How many numbers of a worker it has: a histogram has its sum too."""
        series = prod(len(values) for _, values in self.labels)
        return series * (len(self.bounds) + 2 if self.kind == "histogram" else 1)

    def series(self) -> list[dict[str, str]]:
        """Return the labels of each number, in their order."""
        names = [name for name, _ in self.labels]
        return [
            dict(zip(names, values, strict=True))
            for values in product(*(values for _, values in self.labels))
        ]


@cache
def families() -> tuple[Family, ...]:
    """Return every family of numbers that a worker counts, in the order of its numbers."""
    return tuple(
        Family(
            PREFIX + name,
            kind,
            unit,
            help_text,
            tuple((label, tuple(values)) for label, values in labels),
            tuple(bounds),
        )
        for name, kind, unit, help_text, labels, bounds in _core.metrics()
    )


@dataclass(slots=True)
class Tally:
    """The counts of all workers, and what became of them."""

    exits: Counter[str] = field(default_factory=Counter)
    """How many workers have ended, by cause."""
    _free: list[_core.Counts] = field(default_factory=list)
    _ended: list[int] = field(default_factory=list)

    def take(self) -> _core.Counts:
        """Return zeros for a worker that is about to start.

        Raises:
            MemoryError: there is none left.
        """
        return self._free.pop() if self._free else _core.Counts()

    def release(self, counts: _core.Counts) -> None:
        """Keep the counters of a worker that has ended."""
        self._ended = self._with_ended(counts.read())
        counts.clear()
        self._free.append(counts)

    def totals(self, running: Iterable[_core.Counts]) -> list[int]:
        """Return the sum of each number, with those of the workers that run."""
        total = self._ended or [0] * sum(each.length for each in families())
        for counts in running:
            total = list(map(add, total, counts.read()))
        return total

    def _with_ended(self, numbers: Sequence[int]) -> list[int]:
        kept: list[int] = []
        for family in families():
            part = numbers[len(kept) : len(kept) + family.length]
            kept += [0] * family.length if family.kind == "gauge" else part
        return list(map(add, self._ended, kept)) if self._ended else kept


def by_family(numbers: Sequence[int]) -> dict[str, tuple[Family, Sequence[int]]]:
    """Return each family and its numbers, by name."""
    found: dict[str, tuple[Family, Sequence[int]]] = {}
    start = 0
    for family in families():
        found[family.name] = family, numbers[start : start + family.length]
        start += family.length
    return found


def cause_of(how: str, *, is_asked: bool, is_started: bool, has_hung: bool = False) -> str:
    """Return the cause of a worker's end, for the metrics.

    Args:
        how: the exit status or the signal, as the log has it.
        is_asked: whether it was to end.
        is_started: whether it had reported that it serves.
        has_hung: whether it was to end because it hung.
    """
    if has_hung:
        return "timeout"
    if is_asked:
        return "killed" if how == "signal SIGKILL" else "stopped"
    if not is_started:
        return "failed_start"
    return "signal" if how.startswith("signal ") else "exit"


CAUSES: Mapping[str, str] = {
    "stopped": "it was to end, and did",
    "killed": "it was to end, and was killed after its graceful time",
    "timeout": "it hung, and was replaced (worker_timeout_ms)",
    "failed_start": "before it served",
    "exit": "it exited by itself",
    "signal": "a signal ended it: a crash, or a lack of memory",
}
"""The causes of a worker's end, and what they mean."""
