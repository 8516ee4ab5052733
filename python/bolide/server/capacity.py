"""Limits of the machine that are below the server's own: one warning each at the start.

It checks three limits; `bolide doctor` checks everything else.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

from bolide.errors import ConfigError
from bolide.server import memory

if TYPE_CHECKING:
    from bolide.config.settings import Settings

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
DESCRIPTOR_RESERVE = 64
"""Descriptors of a worker beside its connections and files: listeners, epoll, pipes, logs."""
DESCRIPTORS_PER_FILE = 8
"""One of so many descriptors is for files; as many may be spool files (wsgi/spool.rs)."""
RESERVED_QUARTERS_MAX = 3
"""Connections get the remaining quarter if a process may have few descriptors."""
SEATS_EACH = 3
"""Seats for each worker: itself, its successor in a reload, and one that drains. With more that
drain, a reload waits for the first of them to end."""
REDIRECTED_MAX = 1024
"""Connections of a worker that are only sent to https; each has one request."""
FEWEST_DESCRIPTORS = 32
"""With fewer nothing works: imports, and the pipes between the processes, need some."""


def raise_descriptor_limit(settings: Settings) -> None:
    """Raise the limit to the descriptors that this process and its workers may need.

    The default of most systems is 1024, because `select()` cannot handle more; they allow more.

    Raises:
        ConfigError: the limit is too low even to start the processes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The supervisor has a pipe, a channel and a buffer for stacks of each worker, and of as many
    # that drain in a reload.
    fewest = FEWEST_DESCRIPTORS + 6 * settings.workers + seats(settings.workers)
    if hard != resource.RLIM_INFINITY and hard < fewest:
        count = f"{settings.workers} worker{'' if settings.workers == 1 else 's'}"
        raise ConfigError(
            f"{hard} open files are too few for {count}: at least {fewest}; "
            "raise the limit (ulimit -n, or LimitNOFILE in systemd's unit)"
        )
    needed = max(fewest, descriptors_needed(settings))
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def descriptors_needed(settings: Settings) -> int:
    """Return how many descriptors one worker may have open."""
    kept = settings.core["connections_max"] + _reserve(settings)
    return -(-kept * DESCRIPTORS_PER_FILE // (DESCRIPTORS_PER_FILE - 1))


def connections_max(settings: Settings) -> int:
    """Return how many connections a worker holds, so that it can still open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.core["connections_max"]
    if soft == resource.RLIM_INFINITY:
        return wanted
    reserve = _reserve(settings) + soft // DESCRIPTORS_PER_FILE
    return min(wanted, soft - min(reserve, soft * RESERVED_QUARTERS_MAX // 4))


def _reserve(settings: Settings) -> int:
    redirected = REDIRECTED_MAX if settings.redirect_to_https else 0
    return DESCRIPTOR_RESERVE + seats(settings.workers) + redirected


def seats(workers: int) -> int:
    """Return how many processes may share the connections; each has a descriptor to wake each."""
    return workers * SEATS_EACH if workers > 1 else 0


def shortfalls(settings: Settings) -> list[str]:
    """Return a line for each limit of the settings that the machine does not allow."""
    found = [_backlog(settings.backlog), _descriptors(settings), memory.shortfall(settings)]
    return [line for line in found if line]


def _backlog(asked: int) -> str:
    try:
        given = int(SOMAXCONN.read_text(encoding="ascii"))
    except (OSError, ValueError):  # another system, or no /proc: nothing is known to be wrong
        return ""
    if given >= asked:
        return ""
    return (
        f"the kernel limits the backlog of {asked} to {given}; raise it (sysctl -w "
        f"net.core.somaxconn={asked}) or lower --backlog; see `bolide doctor`"
    )


def _descriptors(settings: Settings) -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted, held, needed = (
        settings.core["connections_max"],
        connections_max(settings),
        descriptors_needed(settings),
    )
    if held >= wanted:
        return ""
    if hard == resource.RLIM_INFINITY or hard >= needed:
        remedy = f"`ulimit -n {needed}`"
    else:
        remedy = f"LimitNOFILE={needed} in systemd's unit or nofile in limits.conf"
    return (
        f"a worker may have {soft} open files, too few for --connections-max {wanted}: it holds "
        f"{held} connections at most; raise it ({remedy}) or lower that; see `bolide doctor`"
    )
