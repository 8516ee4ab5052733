"""An examination: the findings of every setting and every check, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from bolide.doctor import (
    catalogue,
    cgroup,
    counter,
    descriptor,
    listening,
    pressure,
    processor,
)
from bolide.doctor.finding import Case, Check, Finding, Load, Verdict, version
from bolide.doctor.source import Source

SCHEMA = 2
"""Version of the JSON; it changes when a key changes its meaning or is removed."""
SAMPLED = ("proc/stat", "proc/net/netstat", "proc/net/softnet_stat")
URGENCY = list(Verdict)


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings on one machine for one load."""

    kernel: str
    load: Load
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Count the rows of each verdict."""
        verdicts = [each.verdict for each in self.findings]
        return {verdict.value: verdicts.count(verdict) for verdict in Verdict}

    @property
    def is_bitten(self) -> bool:
        """Whether anything limits the load."""
        return any(each.verdict is Verdict.LIMITS for each in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "load": asdict(self.load),
            "counts": self.counts,
            "findings": [asdict(each) for each in self.findings],
        }


def examine(
    source: Source,
    load: Load,
    wait: Callable[[], None],
    ask: listening.Ask = listening.ask_kernel,
) -> Examination:
    """Read a machine's counters before and after `wait`, and judge it for a load."""
    kernel = source.text_or("proc/sys/kernel/osrelease", "").strip()
    case = Case(source, load, version(kernel))
    paths = [*SAMPLED, *cgroup.counting_files(case)]
    case.earlier.update({path: text for path in paths if (text := source.text_or(path, ""))})
    wait()
    found: Iterable[Finding] = [
        *listening.examine(case, ask),
        *catalogue.examine(case),
        *(check.examine(case) for check in _checks()),
    ]
    ordered = sorted(found, key=lambda each: URGENCY.index(each.verdict))
    return Examination(kernel or "unknown", load, tuple(ordered))


def _checks() -> Iterable[Check]:
    for module in (descriptor, processor, cgroup, pressure, counter):
        yield from module.CHECKS
