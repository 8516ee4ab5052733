"""Each rule on a machine that it limits, and on one that it does not."""

from __future__ import annotations

import pytest

from bolide.doctor.finding import Load, Role, Verdict
from doctor.machine import Machine, named

pytestmark = pytest.mark.slow

LIMITS, ADVICE, FINE, UNKNOWN = Verdict.LIMITS, Verdict.ADVICE, Verdict.FINE, Verdict.UNKNOWN
MANY = Load(connections=10_000, new_per_second=2000)
SERVER = Load(connections=10_000, new_per_second=2000, role=Role.SERVER)
CLIENT = Load(connections=10_000, new_per_second=2000, role=Role.CLIENT)
LOOPBACK = Load(connections=10_000, new_per_second=2000, role=Role.LOOPBACK)

CASES: list[tuple[str, str, Load, Verdict]] = [
    ("net.core.somaxconn", "4096", Load(), FINE),
    ("net.core.somaxconn", "4096", MANY, LIMITS),
    ("net.core.somaxconn", "4096", CLIENT, FINE),
    ("net.core.somaxconn", "16384", MANY, FINE),
    ("net.core.somaxconn", "128", Load(connections=100), LIMITS),
    ("net.core.somaxconn", "2048", Load(connections=100), FINE),
    ("net.ipv4.tcp_syncookies", "1", MANY, FINE),
    ("net.ipv4.tcp_syncookies", "0", MANY, ADVICE),
    ("net.ipv4.tcp_syncookies", "2", MANY, LIMITS),
    ("net.ipv4.tcp_max_syn_backlog", "128", MANY, FINE),
    ("net.ipv4.tcp_abort_on_overflow", "1", MANY, ADVICE),
    ("net.ipv4.tcp_abort_on_overflow", "0", MANY, FINE),
    ("net.ipv4.ip_local_port_range", "32768\t60999", Load(new_per_second=470), FINE),
    ("net.ipv4.ip_local_port_range", "32768\t60999", Load(new_per_second=471), LIMITS),
    ("net.ipv4.ip_local_port_range", "32768\t60999", SERVER, FINE),
    ("net.ipv4.ip_local_port_range", "32768\t60999", LOOPBACK, FINE),
    ("net.ipv4.ip_local_port_range", "1024\t65535", Load(new_per_second=1075), FINE),
    ("net.ipv4.ip_local_port_range", "32768\t33767", Load(connections=1001), LIMITS),
    (
        "net.ipv4.ip_local_port_range",
        "32768\t33767",
        Load(connections=1000, new_per_second=9),
        FINE,
    ),
    ("net.ipv4.ip_local_port_range", "32768", MANY, UNKNOWN),
    ("net.ipv4.tcp_tw_reuse", "2", CLIENT, ADVICE),
    ("net.ipv4.tcp_tw_reuse", "0", LOOPBACK, ADVICE),
    ("net.ipv4.tcp_tw_reuse", "2", LOOPBACK, FINE),
    ("net.ipv4.tcp_tw_reuse", "0", SERVER, FINE),
    ("net.ipv4.tcp_tw_reuse", "1", CLIENT, FINE),
    ("net.ipv4.tcp_fin_timeout", "30", MANY, ADVICE),
    ("net.ipv4.tcp_fin_timeout", "60", MANY, FINE),
    ("net.ipv4.tcp_max_tw_buckets", "60000", MANY, LIMITS),
    ("net.ipv4.tcp_max_tw_buckets", "120000", MANY, FINE),
    ("net.ipv4.tcp_max_orphans", "9999", MANY, ADVICE),
    ("net.ipv4.tcp_max_orphans", "10000", MANY, FINE),
    ("net.ipv4.tcp_slow_start_after_idle", "1", SERVER, ADVICE),
    ("net.ipv4.tcp_slow_start_after_idle", "1", LOOPBACK, FINE),
    ("net.ipv4.tcp_slow_start_after_idle", "0", SERVER, FINE),
    ("net.ipv4.tcp_congestion_control", "reno", MANY, ADVICE),
    ("net.ipv4.tcp_congestion_control", "bbr", MANY, FINE),
    ("net.ipv4.tcp_congestion_control", "bbr", LOOPBACK, ADVICE),
    ("net.ipv4.tcp_timestamps", "0", MANY, ADVICE),
    ("net.ipv4.tcp_window_scaling", "0", MANY, ADVICE),
    ("net.ipv4.tcp_sack", "0", MANY, ADVICE),
    ("net.ipv4.tcp_moderate_rcvbuf", "0", MANY, ADVICE),
    ("net.ipv4.tcp_mem", "94500000 915000000 927000000", MANY, ADVICE),
    ("net.ipv4.tcp_mem", "379008 505344 758016", MANY, FINE),
    ("net.ipv4.tcp_mem", "10 35 758016", MANY, LIMITS),
    ("net.ipv4.tcp_mem", "10 36 758016", MANY, FINE),
    ("net.ipv4.tcp_rmem", "4096 87380 4194304", MANY, ADVICE),
    ("net.ipv4.tcp_rmem", "4096 8388608 16777216", MANY, ADVICE),
    ("net.ipv4.tcp_rmem", "4096 131072 6291456", MANY, FINE),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304", MANY, FINE),
    ("net.ipv4.tcp_wmem", "4096 16384 65536", MANY, ADVICE),
    ("fs.nr_open", "9999", MANY, LIMITS),
    ("fs.nr_open", "10000", MANY, FINE),
    ("fs.file-max", "10899", MANY, LIMITS),
    ("fs.file-max", "10900", MANY, FINE),
    ("fs.file-max", "20899", LOOPBACK, LIMITS),
    ("fs.epoll.max_user_watches", "9999", MANY, LIMITS),
    ("net.core.default_qdisc", "fq", MANY, FINE),
    ("net.ipv4.ip_local_reserved_ports", "", Load(port=40000), ADVICE),
    ("net.ipv4.ip_local_reserved_ports", "39999-40001", Load(port=40000), FINE),
    ("net.ipv4.ip_local_reserved_ports", "", Load(port=8000), FINE),
    ("net.ipv4.ip_local_reserved_ports", "x", Load(port=40000), UNKNOWN),
]


@pytest.mark.parametrize(
    ("name", "value", "load", "verdict"),
    CASES,
    ids=[f"{n}={v} {load.role.value} {verdict}" for n, v, load, verdict in CASES],
)
def test_verdict(machine: Machine, name: str, value: str, load: Load, verdict: Verdict) -> None:
    machine.set(name, value)
    row = machine.row(name, load)
    assert (row.verdict, row.value) == (verdict, " ".join(value.split())), row
    assert bool(row.fix) == (verdict in (LIMITS, ADVICE)) or "bbr" in value
    assert row.why.endswith(".")


def test_default_machine_is_not_bitten_by_the_default_load(machine: Machine) -> None:
    examination = machine.examine()
    assert not examination.is_bitten
    others = [each.name for each in examination.findings if each.verdict is not FINE]
    assert others == ["net.ipv4.tcp_tw_recycle"]


def test_ports_against_time_wait_by_numbers(machine: Machine) -> None:
    row = machine.row("net.ipv4.ip_local_port_range", MANY)
    assert row.why == (
        "28,232 ports, each in TIME_WAIT for 60 s if the client closes first, allow 470 new "
        "connections per second from one address to one server; the load has 2,000."
    )
    assert row.fix.endswith(", or more source addresses, or tcp_tw_reuse=1")


def test_reuse_lifts_the_rate_and_needs_timestamps(machine: Machine) -> None:
    machine.set("net.ipv4.tcp_tw_reuse", "1")
    assert (
        "28,232 new connections per second" in machine.row("net.ipv4.ip_local_port_range", MANY).why
    )
    machine.set("net.ipv4.tcp_tw_reuse_delay", "500")
    assert (
        "56,464 new connections per second" in machine.row("net.ipv4.ip_local_port_range", MANY).why
    )
    machine.set("net.ipv4.tcp_tw_reuse_delay", "0")
    assert machine.row("net.ipv4.ip_local_port_range", MANY).verdict is FINE
    machine.set("net.ipv4.tcp_timestamps", "0")
    assert machine.row("net.ipv4.ip_local_port_range", MANY).verdict is LIMITS
    reuse = machine.row("net.ipv4.tcp_tw_reuse", MANY)
    assert (reuse.verdict, reuse.why) == (ADVICE, "It has no effect because tcp_timestamps is 0.")


def test_small_memory_has_small_buffers(machine: Machine) -> None:
    machine.set("net.ipv4.tcp_rmem", "4096 131072 4194304")
    assert machine.row("net.ipv4.tcp_rmem").verdict is ADVICE
    machine.write("proc/meminfo", "MemTotal:       524288 kB\n")
    assert machine.row("net.ipv4.tcp_rmem").verdict is FINE


def test_reserved_ports_are_not_counted(machine: Machine) -> None:
    machine.set("net.ipv4.ip_local_reserved_ports", "8080,32768-60000")
    row = machine.row("net.ipv4.ip_local_port_range", Load(connections=1000))
    assert row.verdict is LIMITS
    assert row.why.startswith("999 ports; 1,000 connections")


def test_syn_backlog_counts_only_without_cookies(machine: Machine) -> None:
    assert machine.row("net.ipv4.tcp_max_syn_backlog", MANY).verdict is FINE
    machine.set("net.ipv4.tcp_syncookies", "0")
    row = machine.row("net.ipv4.tcp_max_syn_backlog", MANY)
    assert row.verdict is LIMITS
    assert row.why.startswith("Without SYN cookies, new clients get 1,536 of its entries;")


def test_dropped_packets(machine: Machine) -> None:
    name = "net.core.netdev_max_backlog"
    assert machine.row(name).verdict is FINE
    machine.drop(0, 0x4C36)
    row = machine.row(name)
    assert (row.verdict, row.why) == (ADVICE, "19,510 packets were dropped since the start.")
    row = named(machine.examine(wait=lambda: machine.drop(1, 0x4C37)), name)
    assert (row.verdict, row.why) == (LIMITS, "2 packets were dropped during the sample.")


def test_connection_tracking(machine: Machine) -> None:
    machine.set("net.netfilter.nf_conntrack_max", "65536")
    machine.set("net.netfilter.nf_conntrack_count", "0")
    assert machine.row("net.netfilter.nf_conntrack_max", MANY).verdict is FINE
    machine.set("net.netfilter.nf_conntrack_count", "7")
    row = machine.row("net.netfilter.nf_conntrack_max", MANY)
    assert (row.verdict, row.fix) == (LIMITS, "sysctl -w net.netfilter.nf_conntrack_max=262144")
    assert row.why.startswith("The load needs 250,000 entries; above 65,536")
    machine.set("net.netfilter.nf_conntrack_max", "250000")
    assert machine.row("net.netfilter.nf_conntrack_max", MANY).verdict is FINE
    machine.set("net.netfilter.nf_conntrack_max", "50000")
    machine.set("net.netfilter.nf_conntrack_tcp_timeout_time_wait", "20")
    assert machine.row("net.netfilter.nf_conntrack_max", MANY).verdict is FINE
