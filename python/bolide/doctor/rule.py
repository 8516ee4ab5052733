"""When a kernel setting bites: one function for each setting that needs more than its default.

A rule gives None where nothing but the comparison with the default is to be said. Facts about the
settings stand in `catalogue.toml`; here are only the conditions of handshakes, ports and closing,
and in `kernel_limit.py` those of memory, files and tables.
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
    mend = f"sysctl -w net.core.somaxconn={power_of_two_above(wanted)}"
    if not load.is_server:
        return fine("No connections come in here.")
    if value < load.backlog:
        why = f"The server asks for a backlog of {load.backlog:,} and gets {value:,}."
        return Judgement(Verdict.BITES, why, mend)
    if value < load.connections:
        why = (
            f"Of {load.connections:,} connections opened at once, {value:,} can wait; the others "
            "try again after 1 s."
        )
        return Judgement(Verdict.BITES, why, f"{mend}, and a backlog as large for the server")
    stall = f" It holds {value / load.new_per_second:.1f} s of them." if load.new_per_second else ""
    return fine(f"As many as {value:,} connections can wait.{stall}")


def _syncookies(case: Case) -> Judgement | None:
    [value, *_] = case.setting("net.ipv4.tcp_syncookies")
    mend = "sysctl -w net.ipv4.tcp_syncookies=1"
    if value == 0:
        why = "When the backlog is full, handshakes are dropped without a word in the log."
        return Judgement(Verdict.ADVICE, why, mend)
    if value == 2:
        why = "Every connection goes through a cookie, for tests of that only."
        return Judgement(Verdict.BITES if case.load.is_server else Verdict.ADVICE, why, mend)
    return None


def _max_syn_backlog(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_syn_backlog")
    if case.setting_or("net.ipv4.tcp_syncookies", 1):
        return fine("Not looked at while tcp_syncookies is on: the server's backlog counts.")
    open_to_all = value * 3 // 4
    if case.load.is_server and open_to_all < case.load.connections:
        why = (
            f"Without SYN cookies, unknown clients get {open_to_all:,} of its places; "
            f"{case.load.connections:,} may come at once."
        )
        return Judgement(Verdict.BITES, why, "sysctl -w net.ipv4.tcp_syncookies=1")
    return fine("Enough, though SYN cookies are off.")


def _abort_on_overflow(case: Case) -> Judgement | None:
    if case.setting("net.ipv4.tcp_abort_on_overflow")[0] == 0:
        return None
    why = "A burst beyond the backlog becomes failed connections."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_abort_on_overflow=0")


def _port_range(case: Case) -> Judgement:
    load, count = case.load, port.count(case)
    if not load.is_client:
        return fine("Connections that come in need none of these ports.")
    mend = 'sysctl -w net.ipv4.ip_local_port_range="10000 65535", or more source addresses'
    if load.connections > count:
        why = (
            f"{count:,} ports; {load.connections:,} connections from one address to one server "
            "need as many."
        )
        return Judgement(Verdict.BITES, why, mend)
    rate_max = port.new_per_second_max(case)
    if load.new_per_second > rate_max:
        why = (
            f"{count:,} ports, each in TIME_WAIT for {port.held_s(case):g} s where the client "
            f"closes first, are {int(rate_max):,} new connections a second from one address to one "
            f"server; {load.new_per_second:,.0f} are asked for."
        )
        if load.role is Role.ANY and not port.has_reuse(case):
            mend += ", or tcp_tw_reuse=1"
        return Judgement(Verdict.BITES, why, mend)
    why = f"{count:,} ports: {int(rate_max):,} new connections a second from one address to one"
    return fine(f"{why} server.")


def _reserved_ports(case: Case) -> Judgement:
    served = case.load.port
    if served is None or not port.is_taken_by_clients(case, served):
        return fine("No port asked about needs it.")
    name = "net.ipv4.ip_local_reserved_ports"
    why = f"Port {served} is within ip_local_port_range; an outgoing connection may take it."
    return Judgement(Verdict.ADVICE, why, f"sysctl -w {name}={served}")


def _tw_reuse(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_tw_reuse")
    if not case.load.is_client:
        return fine("It means nothing to connections that come in.")
    if value and not case.setting_or("net.ipv4.tcp_timestamps", 1):
        why = "It does nothing, because tcp_timestamps is 0."
        return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_timestamps=1")
    if case.load.new_per_second <= port.new_per_second_max(case):
        return fine("There are ports enough for the rate asked about.")
    if value == port.EVERYWHERE:
        return fine("Already as far as it goes.")
    why = "With 1, ports in TIME_WAIT would do again after a second."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_tw_reuse=1")


def _tw_recycle(case: Case) -> Judgement:
    if case.setting("net.ipv4.tcp_tw_recycle")[0] == 0:
        return fine("Off, as it has to be.")
    why = "Of several clients behind one address, all but one are refused at random."
    return Judgement(Verdict.BITES, why, "sysctl -w net.ipv4.tcp_tw_recycle=0")


def _fin_timeout(case: Case) -> Judgement | None:
    [value, *_] = case.setting("net.ipv4.tcp_fin_timeout")
    if value == 60:
        return None
    why = f"{value} s and not 60: TIME_WAIT is as long as before, 60 s."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_fin_timeout=60")


def _max_tw_buckets(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_tw_buckets")
    waiting = int(case.load.new_per_second * port.TIME_WAIT_S)
    if waiting <= value:
        return fine(f"Up to {waiting:,} in TIME_WAIT at the rate asked about.")
    why = (
        f"{case.load.new_per_second:,.0f} new connections a second leave {waiting:,} in TIME_WAIT; "
        f"beyond {value:,} they are cut short, with a warning in the kernel's log."
    )
    mend = f"sysctl -w net.ipv4.tcp_max_tw_buckets={power_of_two_above(waiting)}"
    return Judgement(Verdict.BITES, why, mend)


def _max_orphans(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_max_orphans")
    if value >= case.load.connections:
        return fine("More than there are connections.")
    why = f"If all {case.load.connections:,} connections are closed at once, some are reset."
    mend = f"sysctl -w net.ipv4.tcp_max_orphans={power_of_two_above(case.load.connections)}"
    return Judgement(Verdict.ADVICE, why, mend)


def _slow_start_after_idle(case: Case) -> Judgement:
    [value, *_] = case.setting("net.ipv4.tcp_slow_start_after_idle")
    if value == 0 or case.load.role in (Role.LOOPBACK, Role.CLIENT):
        return fine("Windows stay as they are." if value == 0 else "Nothing that is felt here.")
    why = "A large answer after a pause starts slowly again."
    return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0")


def _congestion_control(case: Case) -> Judgement:
    folder = "proc/sys/net/ipv4/"
    chosen = case.source.text(f"{folder}tcp_congestion_control").strip()
    available = " ".join(case.source.text(f"{folder}tcp_available_congestion_control").split())
    if chosen == "reno":
        why = f"The oldest of them; this kernel has: {available}."
        return Judgement(Verdict.ADVICE, why, "sysctl -w net.ipv4.tcp_congestion_control=cubic")
    if chosen == "bbr" and case.load.role is Role.LOOPBACK:
        why = "It sends by timers, over loopback too; figures under cubic are not comparable."
        return Judgement(Verdict.ADVICE, why)
    return fine(f"One of: {available}.")


def _kept_on(name: str, loss: str) -> Rule:
    """Make the rule of a switch that must not be off."""

    def rule(case: Case) -> Judgement | None:
        if case.setting(name)[0]:
            return None
        return Judgement(Verdict.ADVICE, f"Off: {loss}.", f"sysctl -w {name}=1")

    return rule


def _whatever(case: Case) -> Judgement:
    """Judge a setting whose default is the distribution's choice."""
    return fine("As the distribution has chosen it.")


RULES: dict[str, Rule] = {
    "fs.epoll.max_user_watches": kernel_limit.max_user_watches,
    "fs.file-max": kernel_limit.file_max,
    "fs.nr_open": kernel_limit.nr_open,
    "net.core.default_qdisc": _whatever,
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
    "net.ipv4.tcp_sack": _kept_on("net.ipv4.tcp_sack", "one lost packet makes many be sent again"),
    "net.ipv4.tcp_slow_start_after_idle": _slow_start_after_idle,
    "net.ipv4.tcp_syncookies": _syncookies,
    "net.ipv4.tcp_timestamps": _kept_on(
        "net.ipv4.tcp_timestamps", "ports in TIME_WAIT cannot be used again early"
    ),
    "net.ipv4.tcp_tw_recycle": _tw_recycle,
    "net.ipv4.tcp_tw_reuse": _tw_reuse,
    "net.ipv4.tcp_window_scaling": _kept_on(
        "net.ipv4.tcp_window_scaling", "a connection has at most 64 KB on its way"
    ),
    "net.ipv4.tcp_wmem": kernel_limit.buffers("net.ipv4.tcp_wmem", 16384, 4194304),
    "net.netfilter.nf_conntrack_max": kernel_limit.conntrack,
}
