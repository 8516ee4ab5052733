"""Limits that a process inherits: descriptors and core files (limits.conf, ulimit, systemd)."""

from __future__ import annotations

import re

from bolide.doctor.finding import Case, Check, Judgement, Verdict, fine, power_of_two_above
from bolide.doctor.source import Unreadable

GROUP = "process limit"
RESERVE = 200
"""Descriptors besides the connections: listeners, logs, files being sent, the application's."""


def limit(case: Case, name: str, process: str = "self") -> tuple[str, str]:
    """Read the soft and the hard limit of a process: numbers, or "unlimited".

    Raises:
        Unreadable: the process or the limit does not exist.
    """
    path = f"proc/{process}/limits"
    for line in case.source.text(path).splitlines():
        match = re.match(rf"{name} +(\S+) +(\S+)", line)
        if match:
            return match[1], match[2]
    raise Unreadable(f"/{path} has no line {name!r}")


def judge_soft(case: Case, process: str = "self") -> tuple[str, Judgement]:
    """Judge whether a process may have a descriptor for each connection.

    Raises:
        Unreadable: its limits cannot be read.
    """
    soft, hard = limit(case, "Max open files", process)
    needed = case.load.connections + RESERVE
    if _is_enough(soft, needed):
        return soft, fine(f"More than the {needed:,} needed.")
    why = f"{case.load.connections:,} connections need {needed:,} descriptors in one process."
    wanted = power_of_two_above(needed)
    if process != "self":
        fix = f"prlimit --pid {process} --nofile={wanted}, and for the next start LimitNOFILE="
    elif _is_enough(hard, needed):
        fix = f"ulimit -n {needed if not _is_enough(hard, wanted) else wanted}"
    else:
        fix = "raise the hard limit first"
    return soft, Judgement(Verdict.LIMITS, why, fix)


def _soft(case: Case) -> tuple[str, Judgement]:
    return judge_soft(case)


def _hard(case: Case) -> tuple[str, Judgement]:
    _, hard = limit(case, "Max open files")
    needed = case.load.connections + RESERVE
    if _is_enough(hard, needed):
        return hard, fine("A process may raise its own limit to this.")
    why = f"No process started here can have the {needed:,} descriptors that are needed."
    wanted = power_of_two_above(needed)
    fix = f"LimitNOFILE={wanted} in systemd's unit, or nofile in limits.conf and a new login"
    return hard, Judgement(Verdict.LIMITS, why, fix)


def _core(case: Case) -> tuple[str, Judgement]:
    soft, _ = limit(case, "Max core file size")
    return soft, fine("It matters when a process crashes, not while it serves.")


def _is_enough(value: str, needed: int) -> bool:
    return value == "unlimited" or (value.isdigit() and int(value) >= needed)


CHECKS = (
    Check(
        "descriptors (soft)",
        GROUP,
        "Open files of one process; each connection is one. A server at its limit cannot accept, "
        "and clients wait in the backlog.",
        "Allow for the connections plus about 200. A service does not have the limits of a shell.",
        _soft,
    ),
    Check(
        "descriptors (hard)",
        GROUP,
        "Upper bound to which a process may raise its own soft limit.",
        "Set it where the service is started: limits.conf applies to logins only.",
        _hard,
    ),
    Check(
        "core file size",
        GROUP,
        "How much of a crashed process is written to disk; it has no effect on requests.",
        "Leave it. The core file of a large process takes time and space to write.",
        _core,
    ),
)
