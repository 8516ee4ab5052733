"""The arithmetic of outgoing ports: how many there are, and how long TIME_WAIT occupies each.

The side that closes a connection first keeps it in TIME_WAIT. If that is the client, one source
address can open at most `count / held_s` new connections per second to one destination.
"""

from __future__ import annotations

from bolide.doctor.finding import Case, Role
from bolide.doctor.source import Unreadable

TIME_WAIT_S = 60
"""TCP_TIMEWAIT_LEN of the Linux kernel, which no setting changes."""
REUSE_DELAY_MS = 1000
HELD_S_MIN = 0.001
"""The unit of tcp_tw_reuse_delay, which may be 0."""
RANGE = "net.ipv4.ip_local_port_range"
EVERYWHERE, OVER_LOOPBACK = 1, 2
"""Values of tcp_tw_reuse."""


def count(case: Case) -> int:
    """Count the ports that the kernel assigns to outgoing connections.

    Raises:
        Unreadable: a setting cannot be read.
    """
    low, high = _range(case)
    taken = sum(
        max(0, min(high, last) - max(low, first) + 1) for first, last in _reserved_ranges(case)
    )
    return max(0, high - low + 1 - taken)


def held_s(case: Case) -> float:
    """Return for how many seconds the port of a closed connection cannot be reused."""
    return _reuse_delay_ms(case) / 1000 if has_reuse(case) else float(TIME_WAIT_S)


def has_reuse(case: Case) -> bool:
    """Whether tcp_tw_reuse applies to the connections of the load."""
    reuse = case.setting_or("net.ipv4.tcp_tw_reuse", 0)
    if not case.setting_or("net.ipv4.tcp_timestamps", 1):
        return False
    return reuse == EVERYWHERE or (reuse == OVER_LOOPBACK and case.load.role is Role.LOOPBACK)


def new_per_second_max(case: Case) -> float:
    """Return the rate of new connections that the ports allow if the client closes first."""
    return count(case) / max(held_s(case), HELD_S_MIN)


def is_taken_by_clients(case: Case, port: int) -> bool:
    """Whether an outgoing connection may take the port, so that a server cannot listen on it."""
    low, high = _range(case)
    is_reserved = any(first <= port <= last for first, last in _reserved_ranges(case))
    return low <= port <= high and not is_reserved


def _reuse_delay_ms(case: Case) -> int:
    return case.setting_or("net.ipv4.tcp_tw_reuse_delay", REUSE_DELAY_MS)


def _range(case: Case) -> tuple[int, int]:
    found = case.setting(RANGE)
    if len(found) != 2:
        raise Unreadable(f"{RANGE} holds {len(found)} numbers, not 2")
    return found[0], found[1]


def _reserved_ranges(case: Case) -> list[tuple[int, int]]:
    """Read ranges like "8080,9148,10000-10010", which do not overlap."""
    text = case.source.text_or("proc/sys/net/ipv4/ip_local_reserved_ports", "").strip()
    ranges = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        try:
            ranges.append((int(first), int(last or first)))
        except ValueError:
            raise Unreadable(f"ip_local_reserved_ports holds {part!r}") from None
    return ranges
