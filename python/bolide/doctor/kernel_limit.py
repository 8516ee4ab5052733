"""Rules for kernel limits that run out: memory, buffers, packet queues, files, table entries.

`rule.py` has them in its table.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.doctor.finding import (
    Case,
    Judgement,
    Role,
    Verdict,
    fine,
    numbers,
    power_of_two_above,
)
from bolide.doctor.source import Unreadable

PAGE_BYTES = 4096
"""The page size of x86-64 and most others; used only to compare tcp_mem with the memory."""
CONNTRACK_TIME_WAIT_S = 120
FIRST_BUFFER_BYTES_MAX = 1 << 20


def tcp_mem(case: Case) -> Judgement:
    """Judge the memory of all TCP sockets against the machine's, and against what is used."""
    limits = case.setting("net.ipv4.tcp_mem")
    if len(limits) != 3:
        raise Unreadable(f"net.ipv4.tcp_mem holds {len(limits)} numbers, not 3")
    _, pressure, most = limits
    used = _socket_pages(case)
    if used is not None and used >= pressure:
        why = (
            f"TCP uses {used:,} pages, which is above {pressure:,}: the kernel keeps buffers small."
        )
        return Judgement(Verdict.LIMITS, why, "find the sockets that use them: ss -tmi")
    memory_pages = _memory_bytes(case) // PAGE_BYTES
    if most > memory_pages:
        why = f"{most:,} pages are more than the machine's memory, so the limit never applies."
        return Judgement(Verdict.ADVICE, why, "delete it from sysctl.conf and restart the machine")
    return fine(f"{used:,} pages in use." if used is not None else "Less than the memory.")


def _socket_pages(case: Case) -> int | None:
    for line in case.source.text_or("proc/net/sockstat", "").splitlines():
        words = line.split()
        if words[:1] == ["TCP:"] and "mem" in words[:-1]:
            return numbers(words[words.index("mem") + 1], "sockstat")[0]
    return None


def _memory_bytes(case: Case) -> int:
    for line in case.source.text("proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return numbers(line.split()[1], "MemTotal")[0] * 1024
    raise Unreadable("/proc/meminfo has no MemTotal")


def buffers(name: str, first_bytes: int, most_bytes: int) -> Callable[[Case], Judgement]:
    """Return the rule of tcp_rmem or tcp_wmem, given the default of any kernel since 4.20."""

    def rule(case: Case) -> Judgement:
        limits = case.setting(name)
        if len(limits) != 3:
            raise Unreadable(f"{name} holds {len(limits)} numbers, not 3")
        _, first, most = limits
        if first > FIRST_BUFFER_BYTES_MAX:
            why = f"{case.load.connections:,} connections may fill {first:,} bytes each at once."
            return Judgement(Verdict.ADVICE, why, f"lower its second number to {first_bytes}")
        # With little memory, the kernel's default is a 128th of it, less what it reserves.
        if most < min(most_bytes, _memory_bytes(case) // 256):
            why = f"Buffers grow to {most:,} bytes only; long round trips need more."
            return Judgement(Verdict.ADVICE, why, f"raise its third number to {most_bytes}")
        return fine("The kernel chooses sizes between them.")

    return rule


def netdev_max_backlog(case: Case) -> Judgement:
    """Judge the queue of incoming packets by the packets that it dropped."""
    before, now = (_dropped(text) for text in case.sampled("proc/net/softnet_stat"))
    [value, *_] = case.setting("net.core.netdev_max_backlog")
    fix = f"sysctl -w net.core.netdev_max_backlog={power_of_two_above(value * 4)}"
    if now > before:
        why = f"{now - before:,} packets were dropped during the sample."
        return Judgement(Verdict.LIMITS, why, fix)
    if now:
        return Judgement(Verdict.ADVICE, f"{now:,} packets were dropped since the start.", fix)
    return fine("No packet was dropped since the start.")


def _dropped(softnet: str) -> int:
    """Add up the second column, which is hexadecimal, over the rows of all processors."""
    try:
        return sum(int(line.split()[1], 16) for line in softnet.splitlines() if line.strip())
    except (IndexError, ValueError):
        raise Unreadable("/proc/net/softnet_stat has an unexpected form") from None


def nr_open(case: Case) -> Judgement:
    """Judge the highest descriptor limit."""
    return _at_least(case, "fs.nr_open", case.load.connections, "descriptors in one process")


def file_max(case: Case) -> Judgement:
    """Judge the machine's limit of open files, including those that are open now."""
    ends = 2 if case.load.role is Role.LOOPBACK else 1
    text = case.source.text_or("proc/sys/fs/file-nr", "0")
    used = numbers(text, "file-nr")[0]
    needed = case.load.connections * ends + used
    return _at_least(case, "fs.file-max", needed, f"open files, including the {used:,} open now,")


def max_user_watches(case: Case) -> Judgement:
    """Judge how many descriptors one user may watch by epoll."""
    name = "fs.epoll.max_user_watches"
    return _at_least(case, name, case.load.connections, "descriptors watched by one user")


def _at_least(case: Case, name: str, needed: int, what: str) -> Judgement:
    [value, *_] = case.setting(name)
    if value >= needed:
        return fine(f"More than the {needed:,} needed.")
    why = f"{needed:,} {what} are needed; the limit is {value:,}."
    return Judgement(Verdict.LIMITS, why, f"sysctl -w {name}={power_of_two_above(needed)}")


def conntrack(case: Case) -> Judgement:
    """Judge the table of tracked connections, if any is tracked."""
    [value, *_] = case.setting("net.netfilter.nf_conntrack_max")
    tracked = case.setting_or("net.netfilter.nf_conntrack_count", 0)
    if tracked == 0:
        return fine("No connection is tracked now.")
    kept_s = case.setting_or(
        "net.netfilter.nf_conntrack_tcp_timeout_time_wait", CONNTRACK_TIME_WAIT_S
    )
    needed = case.load.connections + int(case.load.new_per_second * kept_s)
    if needed <= value:
        return fine(f"{tracked:,} entries now, {needed:,} under the given load.")
    why = f"The load needs {needed:,} entries; above {value:,}, new connections are dropped."
    fix = f"sysctl -w net.netfilter.nf_conntrack_max={power_of_two_above(needed)}"
    return Judgement(Verdict.LIMITS, why, fix)
