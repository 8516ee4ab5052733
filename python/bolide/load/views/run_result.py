"""The result of a run, from which every view formats its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bolide.load.destination import Destination
from bolide.load.options import Options
from bolide.load.verdict import RESPONSE_CLASSES


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: its options, the plan given to the engine, and the report."""

    report: dict[str, Any]
    plan: dict[str, Any]
    options: Options
    destination: Destination

    def errors(self, *classes: str) -> int:
        """Return how many requests failed in one of the classes."""
        return sum(self.report["errors"].get(name, 0) for name in classes)

    def statuses_from(self, lowest: int) -> int:
        """Return how many responses had a status of `lowest` or above."""
        counts = self.report["statuses"].items()
        return sum(count for status, count in counts if int(status) >= lowest)

    @property
    def responses(self) -> int:
        """How many requests got a complete response, correct or not."""
        return int(self.report["ok"]) + self.errors(*RESPONSE_CLASSES)

    @property
    def url(self) -> str:
        """The first URL, with a path."""
        if not self.destination.port:
            return self.destination.url
        scheme = self.destination.url.partition(":")[0]
        return f"{scheme}://{self.destination.host}{self.plan['requests'][0]['target']}"
