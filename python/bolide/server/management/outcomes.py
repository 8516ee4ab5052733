"""What became of reloads, or of upgrades: each has a number, by which who asked for it finds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

KEPT = 16
"""Results that are kept. Who waits for one asks several times per second."""
COMPLETED, FAILED = RESULTS = ("completed", "failed")


@dataclass(slots=True)
class Outcomes:
    """The results of all that have begun, and of the last ones by number."""

    begun: int = 0
    """The number of the last one; the first one has 1."""
    totals: Counter[str] = field(default_factory=Counter)
    _open: list[int] = field(default_factory=list)
    _results: dict[int, str] = field(default_factory=dict)

    def begin(self) -> int:
        """Begin another one, and return its number."""
        self.begun += 1
        self._open.append(self.begun)
        return self.begun

    def end(self, result: str) -> None:
        """End all that have begun: a later one has included those before it."""
        self.totals[result] += 1
        for number in self._open:
            self._keep(number, result)
        self._open.clear()

    def fail(self, number: int) -> None:
        """End one that has changed nothing, while those before it go on."""
        self.totals[FAILED] += 1
        self._open.remove(number)
        self._keep(number, FAILED)

    def shown(self) -> dict[str, Any]:
        """Return what the status shows."""
        return {"begun": self.begun, "results": {str(n): it for n, it in self._results.items()}}

    def _keep(self, number: int, result: str) -> None:
        self._results[number] = result
        if len(self._results) > KEPT:
            del self._results[next(iter(self._results))]
