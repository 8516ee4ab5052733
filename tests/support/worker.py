"""A worker process seen from outside: its state, its memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.server import Server
from support.waiting import wait_until


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Keep the worker from running, so that all that happens meanwhile is ready at once."""
    (worker,) = server.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_until(lambda: state(worker) == "T")
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def state(pid: int) -> str:
    """Return the letter of a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def resident_bytes(server: Server) -> int:
    """Return how much memory the worker has in use."""
    fields = Path(f"/proc/{server.workers()[0]}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def ticks(pid: int) -> int:
    """Return the processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
