"""How long tasks waited for a resource recently: pressure stall information (PSI)."""

from __future__ import annotations

import re

from bolide.doctor.finding import Case, Check, Judgement, Verdict, fine
from bolide.doctor.source import Unreadable

GROUP = "pressure"
SHARE_MAX = 10.0
"""Percent of the last ten seconds; above it, measurements on this machine are noisy."""
WANTS = {
    "cpu": "processor time that other tasks used",
    "memory": "memory that had to be reclaimed or read back",
    "io": "disks",
}


def _check(resource: str) -> Check:
    def look(case: Case) -> tuple[str, Judgement]:
        path = f"proc/pressure/{resource}"
        match = re.search(r"^some avg10=([\d.]+)", case.source.text(path), re.MULTILINE)
        if match is None:
            raise Unreadable(f"/{path} has an unexpected form")
        share = float(match[1])
        value = f"{share:.1f} % of the last 10 s"
        if share > SHARE_MAX:
            why = f"Tasks waited for {WANTS[resource]}; measurements taken now are noisy."
            return value, Judgement(Verdict.LIMITS, why, "find what else is running: top, iotop")
        return value, fine("Little.")

    return Check(
        f"pressure on {resource}",
        GROUP,
        f"The share of time in which some task waited for {WANTS[resource]}.",
        f"Do not measure above {SHARE_MAX:g} %.",
        look,
    )


CHECKS = tuple(_check(resource) for resource in WANTS)
