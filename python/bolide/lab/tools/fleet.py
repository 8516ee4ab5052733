"""Load from several machines by `bolide load --fleet`: its flags, and whether it has a result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bolide.lab.tools.tool import ToolError

LOCAL = "local:"
"""What the name of a fleet begins with whose agents are started for one load, on this machine."""
PROCESSOR, SHARE = "processor", "share"
"""Kinds of reasons why a load is not valid: an agent had no processor time left, or less than its
share of the load."""
ACHIEVED_SHARE_MIN = 0.99
"""Share of an open loop's rate below which a race says that the rate was not served, as
`report/summary.py` does: tools depend on no other part."""
NOT_VALID = "the result is not valid: "
"""What a warning of `bolide load` begins with that repeats such a reason."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The agents that generate a load, as options name them."""

    where: str
    """`local:N`, or the address of a scheduler."""
    count: int | None = None
    """How many there have to be; None accepts all that there are."""
    secret_file: Path | None = None
    without: tuple[str, ...] = ()
    """Names of agents that take no part."""

    @property
    def is_local(self) -> bool:
        """Whether its agents are started for one load, on this machine."""
        return self.where.startswith(LOCAL)

    def flags(self) -> list[str]:
        """Return the flags of `bolide load`; a local fleet has its number in its name."""
        words = ["--fleet", self.where]
        if self.secret_file is not None:  # the tool runs in another folder
            words += ["--secret-file", str(self.secret_file.absolute())]
        if self.count is not None and not self.is_local:
            words += ["--agents", str(self.count)]
        for name in self.without:
            words += ["--without-agent", name]
        return words

    def threads_each(self, threads: int, connections: int) -> int:
        """Return the threads of each agent, which together are at least those of the load."""
        count = self.count or 1
        return max(1, min(-(-threads // count), connections // count))


class InvalidLoadError(ToolError):
    """A load of a fleet that is no result: an agent was lost or late, or did not do its share.

    `use` is what the agents did: fields of `schema.FleetUse`.
    """

    def __init__(self, reason: str, use: dict[str, Any]) -> None:
        super().__init__(reason)
        self.use = use


def use_of(report: dict[str, Any]) -> dict[str, Any] | None:
    """Return what each agent did: fields of `schema.FleetUse`; None without a fleet."""
    fleet = report.get("fleet")
    if fleet is None:
        return None
    return {
        "start_skew_us": fleet["start_skew_us"],
        "start_skew_uncertainty_us": fleet["start_skew_uncertainty_us"],
        "agents": [
            {
                "machine": _machine(each),
                "threads": each["threads"],
                "connections": each["connections"],
                "requests_per_s": each["requests_per_s"],
                "ok": each["ok"],
                "failed": each["failed"],
                "cpu_share": each["generator_cpu"],
                "waited_share": each["generator_waited"],
                "start_late_us": each["start_late_us"],
                "clock_uncertainty_us": each["clock_uncertainty_us"],
                "lost": each["lost"],
            }
            for each in fleet["agents"]
        ],
        "invalid": report["invalid"],
    }


def _machine(agent: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's description of its machine: fields of `schema.Agent`."""
    return {
        "name": agent["name"],
        "host": agent["host"],
        "cpu_model": agent["processor"],
        "cpus": agent["processors"],
        "memory_bytes": agent["memory_bytes"],
        "kernel": agent["kernel"],
        "python": agent["python"],
        "is_release_build": agent["is_release_build"],
    }


def refuse_invalid(report: dict[str, Any]) -> None:
    """Refuse a load of a fleet that is no result.

    That of agents without processor time is one, of which the generator was the limit; and an open
    loop whose rate was not achieved says so.

    Raises:
        InvalidLoadError: it is none.
    """
    kinds = set(report.get("invalid_kinds") or ())
    achieved = report.get("achieved_share")
    if achieved is not None and achieved < ACHIEVED_SHARE_MIN:
        kinds.discard(SHARE)
    if kinds <= {PROCESSOR}:
        return
    raise InvalidLoadError("; ".join(report["invalid"]), use_of(report) or {})


def refuse_invalid_search(report: dict[str, Any], condition: str) -> None:
    """Refuse a search on a fleet that could not go on, or of which no rate has a valid trial.

    Raises:
        InvalidLoadError: it is one.
    """
    found = report["find"]
    reasons = [each["reason"] for each in found["trials"] if not each.get("is_valid", True)]
    has_nothing = found["rate_per_s"] is None and bool(reasons)
    if found["limit"] != "invalid" and not has_nothing:
        return
    why = found.get("ended") or (reasons or ["its trials are not valid"])[-1]
    raise InvalidLoadError(
        f"the highest rate with {condition} is not known: {why}", use_of(report) or {}
    )


def is_short_of_time(report: dict[str, Any]) -> bool:
    """Return whether an agent had no processor time left."""
    return PROCESSOR in (report.get("invalid_kinds") or ())


def remarks(report: dict[str, Any]) -> list[str]:
    """Return the warnings about a result, and why `bolide load` does not call it valid."""
    warnings = [each for each in report["warnings"] if not each.startswith(NOT_VALID)]
    return [*warnings, *(report.get("invalid") or ())]
