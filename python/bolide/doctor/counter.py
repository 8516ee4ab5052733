"""Counters of the kernel: queues that overflowed, cookies sent, connections in TIME_WAIT."""

from __future__ import annotations

from bolide.doctor import port
from bolide.doctor.finding import Case, Check, Judgement, Verdict, fine, numbers
from bolide.doctor.source import Unreadable

GROUP = "counter"
NETSTAT = "proc/net/netstat"
TIME_WAIT_SHARE = 0.8
COUNTERS = {
    "ListenOverflows": (
        "Handshakes dropped because the accept queue was full.",
        "Raise the server's backlog and somaxconn, or accept faster.",
    ),
    "ListenDrops": (
        "Handshakes dropped by a listener, because its queue is full or for another reason.",
        "Check ListenOverflows first.",
    ),
    "TCPReqQFullDoCookies": (
        "SYNs that got a cookie because the queue of half-open connections was full.",
        "Raise the server's backlog and somaxconn: cookies add no capacity.",
    ),
    "TCPReqQFullDrop": (
        "SYNs dropped because the queue of half-open connections was full.",
        "Raise the server's backlog and somaxconn, and set tcp_syncookies to 1.",
    ),
    "SyncookiesSent": (
        "Handshakes completed with a cookie.",
        "Raise the server's backlog and somaxconn, unless it was an attack.",
    ),
    "TCPTimeWaitOverflow": (
        "Connections whose TIME_WAIT was cut short because there were too many.",
        "Raise tcp_max_tw_buckets.",
    ),
}


def _check(name: str, does: str, advice: str) -> Check:
    def look(case: Case) -> tuple[str, Judgement]:
        before, now = (counter(text, name) for text in case.sampled(NETSTAT))
        value = f"{now:,}"
        if now > before:
            why = f"{now - before:,} more during the sample."
            return value, Judgement(Verdict.LIMITS, why, advice)
        if now:
            return value, Judgement(
                Verdict.ADVICE, "Some since the start, none during the sample.", advice
            )
        return value, fine("None since the start.")

    return Check(name, GROUP, does, advice, look)


def counter(netstat: str, name: str) -> int:
    """Return a counter of /proc/net/netstat, which has pairs of lines: names, then values.

    Raises:
        Unreadable: this kernel does not count it.
    """
    lines = netstat.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found = dict(zip(names.split(), values.split(), strict=False))
        if name in found:
            return numbers(found[name], name)[0]
    raise Unreadable(f"/{NETSTAT} does not count {name}")


def _time_wait(case: Case) -> tuple[str, Judgement]:
    waiting = _sockets_in_time_wait(case)
    value = f"{waiting:,}"
    if case.load.is_client and waiting > TIME_WAIT_SHARE * port.count(case):
        why = "If this machine opened them to one server, its ports run out."
        return value, Judgement(Verdict.ADVICE, why, "wait a minute before the next measurement")
    return value, fine("Each ends after 60 s by itself.")


def _sockets_in_time_wait(case: Case) -> int:
    for line in case.source.text("proc/net/sockstat").splitlines():
        words = line.split()
        if words[:1] == ["TCP:"] and "tw" in words[:-1]:
            return numbers(words[words.index("tw") + 1], "sockstat")[0]
    raise Unreadable("/proc/net/sockstat does not count TIME_WAIT")


CHECKS = (
    *(_check(name, *texts) for name, texts in COUNTERS.items()),
    Check(
        "in TIME_WAIT",
        GROUP,
        "Connections that this machine closed first, for 60 s after their end. They cost a server "
        "nothing, but occupy a client's ports.",
        "Reuse connections (keep-alive) if there are too many.",
        _time_wait,
    ),
)
