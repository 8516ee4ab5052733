"""What the kernel reports of a process (proc(5))."""

from __future__ import annotations

import os
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOPPED = ("T", "t")
"""States of a process that is stopped by a signal or a debugger."""
ENDED = ("", "Z", "X", "x")
"""States of one that has ended, whether or not its parent has noticed."""


def state_of(pid: int) -> str:
    """Return the letter of a process's state; "" if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]  # the name before it may contain anything


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, by a signal or a debugger."""
    return state_of(pid) in STOPPED


def has_ended(pid: int) -> bool:
    """Return whether a process runs no more: there is none, or only its exit status is left."""
    return state_of(pid) in ENDED


def rss_bytes(pid: int) -> int:
    """Return the memory of a process that is resident, shared pages included; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def command_line(pid: int) -> bytes:
    """Return the arguments of a process, each with a NUL after it; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
