"""When a kernel setting is a limit: one function for each setting that needs more than its default.

A rule returns None if only the comparison with the default applies. `catalogue.toml` has the facts
about the settings. This module has the conditions for handshakes, ports and closing,
`kernel_limit.py` those for memory, files and tables.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.doctor import kernel_limit, port
from bolide.doctor.finding import (
    Case,
    Judgement,
    Role,
    Verdict,
    fine,
    power_of_two_above,
)

Rule = Callable[[Case], Judgement | None]


def _somaxconn(case: Case) -> Judgement:
    [value, *_] = case.setting("net.core.somaxconn")
    load = case.load
    wanted = max(load.backlog, load.connections)
    fix = f"sysctl -w net.core.somaxconn={power_of_two_above(wanted)}"
    if not load.is_server:
        return fine("This machine accepts no connections.")
    if value < load.backlog:
        why = f"The server requests a backlog of {load.backlog:,} and gets {value:,}."
        return Judgement(Verdict.LIMITS, why, fix)
    if value < load.connections:
        why = (
            f"Of {load.connections:,} connections opened at once, {value:,} can wait; the others "
            "retry after 1 s."
        )
        return Judgement(Verdict.LIMITS, why, f"{fix}, and raise the server's backlog to it")
    stall = (
        f" The given rate fills it in {value / load.new_per_second:.1f} s."
        if load.new_per_second
        else ""
    )
    return fine(f"Up to {value:,} connections can wait.{stall}")


def _syncookies(case: Case) -> Judgement | None:
    [value, *_] = case.setting("net.ipv4.tcp_syncookies")
    fix = "sysctl -w net.ipv4.tcp_syncookies=1"
    if value == 0:
        why = "When the backlog is full, handshakes are dropped without a log message."
        return Judgement(Verdict.ADVICE, why, fix)
    if value == 2:
        why = "Every connection uses a cookie, which is meant for tests only."
        return Judgement(Verdict.LIMITS if case.load.is_server else Verdict.ADVICE, why, fix)
    return None


def _max_syn_backlog(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_syn_backlog")
    if case.setting_or("net.ipv4.tcp_syncookies", 1):
        return fine("Not used while tcp_syncookies is on: the server's backlog applies.")
    open_to_all = value * 3 // 4
    if case.load.is_server and open_to_all < case.load.connections:
        why = (
            f"Without SYN cookies, new clients get {open_to_all:,} of its entries; "
            f"{case.load.connections:,} may connect at once."
        )
        return Judgement(Verdict.LIMITS, why, "sysctl -w net.ipv4.tcp_syncookies=1")
    return fine("Enough, though SYN cookies are off.")


def _abort_on_overflow(case: Case) -> Judgement | None:
    if case.setting("net.ipv4.tcp_abort_on_overflow")[0] == 0:
        return None
    why = "A burst beyond the backlog becomes failed connections."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_abort_on_overflow=0")


def _port_range(case: Case) -> Judgement:
    load, count = case.load, port.count(case)
    if not load.is_client:
        return fine("Incoming connections need none of these ports.")
    fix = 'sysctl -w net.ipv4.ip_local_port_range="10000 65535", or more source addresses'
    if load.connections > count:
        why = (
            f"{count:,} ports; {load.connections:,} connections from one address to one server "
            "need that many."
        )
        return Judgement(Verdict.LIMITS, why, fix)
    rate_max = port.new_per_second_max(case)
    if load.new_per_second > rate_max:
        why = (
            f"{count:,} ports, each in TIME_WAIT for {port.held_s(case):g} s if the client closes "
            f"first, allow {int(rate_max):,} new connections per second from one address to one "
            f"server; the load has {load.new_per_second:,.0f}."
        )
        if load.role is Role.ANY and not port.has_reuse(case):
            fix += ", or tcp_tw_reuse=1"
        return Judgement(Verdict.LIMITS, why, fix)
    why = f"{count:,} ports: {int(rate_max):,} new connections per second from one address to one"
    return fine(f"{why} server.")


def _reserved_ports(case: Case) -> Judgement:
    served = case.load.port
    if served is None or not port.is_taken_by_clients(case, served):
        return fine("The given port does not need it.")
    name = "net.ipv4.ip_local_reserved_ports"
    why = f"Port {served} is within ip_local_port_range; an outgoing connection may take it."
    return Judgement(Verdict.ADVICE, why, f"sysctl -w {name}={served}")


def _tw_reuse(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_tw_reuse")
    if not case.load.is_client:
        return fine("It does not apply to incoming connections.")
    if value and not case.setting_or("net.ipv4.tcp_timestamps", 1):
        why = "It has no effect because tcp_timestamps is 0."
        return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_timestamps=1")
    if case.load.new_per_second <= port.new_per_second_max(case):
        return fine("There are enough ports for the given rate.")
    if value == port.EVERYWHERE:
        return fine("It already applies everywhere.")
    why = "With 1, ports in TIME_WAIT could be reused after a second."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_tw_reuse=1")


def _tw_recycle(case: Case) -> Judgement:
    if case.setting("net.ipv4.tcp_tw_recycle")[0] == 0:
        return fine("Off, as it must be.")
    why = "If clients share an address, all but one of them are refused at random."
    return Judgement(Verdict.LIMITS, why, "sysctl -w net.ipv4.tcp_tw_recycle=0")


def _fin_timeout(case: Case) -> Judgement | None:
    [value, *_] = case.setting("net.ipv4.tcp_fin_timeout")
    if value == 60:
        return None
    why = f"{value} s instead of 60 s; TIME_WAIT still lasts 60 s."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_fin_timeout=60")


def _max_tw_buckets(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_tw_buckets")
    waiting = int(case.load.new_per_second * port.TIME_WAIT_S)
    if waiting <= value:
        return fine(f"Up to {waiting:,} in TIME_WAIT at the given rate.")
    why = (
        f"{case.load.new_per_second:,.0f} new connections per second leave {waiting:,} in "
        f"TIME_WAIT; above {value:,} it is cut short, with a warning in the kernel's log."
    )
    fix = f"sysctl -w net.ipv4.tcp_max_tw_buckets={power_of_two_above(waiting)}"
    return Judgement(Verdict.LIMITS, why, fix)


def _max_orphans(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_orphans")
    if value >= case.load.connections:
        return fine("More than there are connections.")
    why = f"If all {case.load.connections:,} connections are closed at once, some are reset."
    fix = f"sysctl -w net.ipv4.tcp_max_orphans={power_of_two_above(case.load.connections)}"
    return Judgement(Verdict.ADVICE, why, fix)


def _slow_start_after_idle(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_slow_start_after_idle")
    if value == 0 or case.load.role in (Role.LOOPBACK, Role.CLIENT):
        return fine("Windows stay as they are." if value == 0 else "No effect on this load.")
    why = "After a pause, a large response starts slowly again."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0")


def _congestion_control(case: Case) -> Judgement:
    folder = "proc/sys/net/ipv4/"
    chosen = case.source.text(f"{folder}tcp_congestion_control").strip()
    available = " ".join(case.source.text(f"{folder}tcp_available_congestion_control").split())
    if chosen == "reno":
        why = f"The oldest algorithm; this kernel has: {available}."
        return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_congestion_control=cubic")
    if chosen == "bbr" and case.load.role is Role.LOOPBACK:
        why = "It paces by timers, also over loopback; figures under cubic are not comparable."
        return Judgement(Verdict.ADVICE, why)
    return fine(f"One of: {available}.")


def _kept_on(name: str, loss: str) -> Rule:
    """Return the rule for a switch that must stay on."""

    def rule(case: Case) -> Judgement | None:
        if case.setting(name)[0]:
            return None
        return Judgement(Verdict.ADVICE, f"Off: {loss}.", f"sysctl -w {name}=1")

    return rule


def _chosen_by_distribution(case: Case) -> Judgement:
    """Judge a setting whose default is chosen by the distribution."""
    return fine("Chosen by the distribution.")


RULES: dict[str, Rule] = {
    "fs.epoll.max_user_watches": kernel_limit.max_user_watches,
    "fs.file-max": kernel_limit.file_max,
    "fs.nr_open": kernel_limit.nr_open,
    "net.core.default_qdisc": _chosen_by_distribution,
    "net.core.netdev_max_backlog": kernel_limit.netdev_max_backlog,
    "net.core.somaxconn": _somaxconn,
    "net.ipv4.ip_local_port_range": _port_range,
    "net.ipv4.ip_local_reserved_ports": _reserved_ports,
    "net.ipv4.tcp_abort_on_overflow": _abort_on_overflow,
    "net.ipv4.tcp_congestion_control": _congestion_control,
    "net.ipv4.tcp_fin_timeout": _fin_timeout,
    "net.ipv4.tcp_max_orphans": _max_orphans,
    "net.ipv4.tcp_max_syn_backlog": _max_syn_backlog,
    "net.ipv4.tcp_max_tw_buckets": _max_tw_buckets,
    "net.ipv4.tcp_mem": kernel_limit.tcp_mem,
    "net.ipv4.tcp_moderate_rcvbuf": _kept_on(
        "net.ipv4.tcp_moderate_rcvbuf", "receive buffers stay at their first size"
    ),
    "net.ipv4.tcp_rmem": kernel_limit.buffers("net.ipv4.tcp_rmem", 131072, 6291456),
    "net.ipv4.tcp_sack": _kept_on(
        "net.ipv4.tcp_sack", "one lost packet causes many to be sent again"
    ),
    "net.ipv4.tcp_slow_start_after_idle": _slow_start_after_idle,
    "net.ipv4.tcp_syncookies": _syncookies,
    "net.ipv4.tcp_timestamps": _kept_on(
        "net.ipv4.tcp_timestamps", "ports in TIME_WAIT cannot be reused early"
    ),
    "net.ipv4.tcp_tw_recycle": _tw_recycle,
    "net.ipv4.tcp_tw_reuse": _tw_reuse,
    "net.ipv4.tcp_window_scaling": _kept_on(
        "net.ipv4.tcp_window_scaling", "a connection has at most 64 KB in flight"
    ),
    "net.ipv4.tcp_wmem": kernel_limit.buffers("net.ipv4.tcp_wmem", 16384, 4194304),
    "net.netfilter.nf_conntrack_max": kernel_limit.conntrack,
}
