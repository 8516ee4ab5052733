"""The catalogue is complete, its facts hold, and what cannot be read is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bolide.doctor.catalogue import settings
from bolide.doctor.finding import Verdict, setting_path, version
from bolide.doctor.rule import RULES
from doctor.machine import Machine

ECHO_STUDY = """
tcp_tw_reuse tcp_tw_recycle tcp_fin_timeout tcp_keepalive_time tcp_max_syn_backlog
tcp_max_tw_buckets tcp_synack_retries tcp_syn_retries tcp_mem tcp_max_orphans tcp_syncookies
"""
"""Below net.ipv4; named in the first of the measurements that this project started from."""
ECHO_STUDY_CORE = "netdev_max_backlog somaxconn wmem_default rmem_default rmem_max wmem_max"
FRAMEWORK_STUDY = """
net.unix.max_dgram_qlen net.ipv4.tcp_mem net.ipv4.tcp_wmem net.ipv4.tcp_rmem
net.core.wmem_default net.core.rmem_default net.core.rmem_max net.core.wmem_max
net.ipv4.tcp_tw_reuse net.ipv4.tcp_tw_recycle kernel.msgmnb kernel.msgmni kernel.msgmax
net.ipv4.tcp_syncookies net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_synack_retries
net.ipv4.tcp_syn_retries net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_time
net.ipv4.ip_local_port_range net.ipv4.tcp_max_tw_buckets net.ipv4.route.max_size
"""
"""sysctl.conf of the second one; its limits.conf has nofile and core."""
MODERN = """
net.ipv4.tcp_abort_on_overflow net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_migrate_req
net.ipv4.tcp_congestion_control net.ipv4.tcp_timestamps net.ipv4.tcp_pingpong_thresh
net.core.busy_poll net.ipv4.tcp_notsent_lowat net.ipv4.ip_local_reserved_ports fs.nr_open
fs.file-max net.ipv4.tcp_tw_reuse_delay net.ipv4.tcp_syn_linear_timeouts
"""
WANTED = {
    *(f"net.ipv4.{name}" for name in ECHO_STUDY.split()),
    *(f"net.core.{name}" for name in ECHO_STUDY_CORE.split()),
    *FRAMEWORK_STUDY.split(),
    *MODERN.split(),
}
ALL = {each.name: each for each in settings()}


def test_catalogue_has_every_setting_of_the_studies() -> None:
    assert not WANTED - ALL.keys()


def test_every_row_is_whole() -> None:
    assert len(ALL) == len(settings())
    assert not RULES.keys() - ALL.keys()
    for each in ALL.values():
        assert each.does.endswith(".") and each.advice.endswith("."), each.name
        assert each.default or each.default_note or each.removed, each.name
        for text in (each.since, each.removed, each.without_effect):
            assert not text or version(text), each.name


@pytest.mark.parametrize("name", sorted(ALL))
def test_setting_is_there_on_this_kernel_or_said_to_be_gone(name: str) -> None:
    """Of all the facts, the existence of a file is the one that any Linux can confirm."""
    kernel = version(Path("/proc/sys/kernel/osrelease").read_text())
    setting = ALL[name]
    if os.path.exists("/" + setting_path(name)):
        assert not setting.since or kernel >= version(setting.since)
    elif Path("/proc/sys/net/core/netdev_max_backlog").exists() and not setting.when_absent:
        gone = setting.removed and kernel >= version(setting.removed)
        early = setting.since and kernel < version(setting.since)
        assert gone or early, name


def test_defaults_follow_the_kernel() -> None:
    somaxconn, port_range = ALL["net.core.somaxconn"], ALL["net.ipv4.ip_local_port_range"]
    assert somaxconn.default_on((5, 3, 18)) == "128"
    assert somaxconn.default_on((5, 4)) == "4096"
    assert port_range.default_on((4, 1)) == "32768 61000"
    assert ALL["net.ipv4.tcp_tw_reuse"].default_on((4, 18)) == "0"
    assert ALL["net.core.rmem_max"].default_on((6, 17)) == "212992"
    rmem = ALL["net.ipv4.tcp_rmem"]
    assert [rmem.default_on(each) for each in [(4, 19), (6, 15), (6, 16)]] == [
        "4096 87380 6291456",
        "4096 131072 6291456",
        "4096 131072 33554432",
    ]


def test_recycling_is_gone_since_4_12(machine: Machine) -> None:
    row = machine.row("net.ipv4.tcp_tw_recycle")
    assert (row.verdict, row.value) == (Verdict.GONE, None)
    assert row.why == "Linux 4.12 removed it; setting it fails."


def test_recycling_limits_where_it_is_on(machine: Machine) -> None:
    machine.set("kernel.osrelease", "4.9.0-8-amd64")
    machine.set("net.ipv4.tcp_tw_recycle", "1")
    row = machine.row("net.ipv4.tcp_tw_recycle")
    assert (row.verdict, row.value, row.default) == (Verdict.LIMITS, "1", "0")
    machine.set("net.ipv4.tcp_tw_recycle", "0")
    assert machine.row("net.ipv4.tcp_tw_recycle").verdict is Verdict.FINE


def test_setting_of_a_later_kernel_is_not_there_yet(machine: Machine) -> None:
    machine.set("kernel.osrelease", "6.1.0-18-amd64")
    machine.unset("net.ipv4.tcp_tw_reuse_delay")
    row = machine.row("net.ipv4.tcp_tw_reuse_delay")
    assert (row.verdict, row.why) == (Verdict.GONE, "It does not exist before Linux 6.14.")


def test_kernel_without_a_version_is_not_guessed(machine: Machine) -> None:
    machine.unset("kernel.osrelease")
    row = machine.row("net.ipv4.tcp_tw_recycle")
    assert row.verdict is Verdict.UNKNOWN
    assert row.why.endswith("No such file or directory, and the kernel's version is unknown.")


def test_missing_file_is_unknown_with_the_reason(machine: Machine) -> None:
    machine.unset("net.core.netdev_max_backlog")
    row = machine.row("net.core.netdev_max_backlog")
    assert (row.verdict, row.value) == (Verdict.UNKNOWN, None)
    assert row.why.startswith("/proc/sys/net/core/netdev_max_backlog: No such file or directory;")


def test_unreadable_value_is_unknown_with_the_reason(machine: Machine) -> None:
    machine.set("net.core.somaxconn", "many")
    row = machine.row("net.core.somaxconn")
    assert (row.verdict, row.value) == (Verdict.UNKNOWN, "many")
    assert row.why == "net.core.somaxconn holds 'many', which is not a number."


def test_no_connection_tracking_is_no_lack(machine: Machine) -> None:
    row = machine.row("net.netfilter.nf_conntrack_max")
    assert (row.verdict, row.why) == (
        Verdict.FINE,
        "It does not exist: no connection is tracked here.",
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("kernel.msgmnb", "4203520", "It has no effect on an HTTP server."),
        ("net.unix.max_dgram_qlen", "100", "It has no effect on an HTTP server."),
        ("net.ipv4.route.max_size", "5242880", "It has no effect on an HTTP server."),
        ("net.ipv4.tcp_low_latency", "1", "It has had no effect since Linux 4.14."),
    ],
)
def test_what_does_nothing_is_fine_whatever_it_says(
    machine: Machine, name: str, value: str, why: str
) -> None:
    machine.set(name, value)
    row = machine.row(name)
    assert (row.verdict, row.value, row.why, row.fix) == (Verdict.FINE, value, why, "")


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("net.core.rmem_default", "8388608", "sysctl -w net.core.rmem_default=212992"),
        ("net.ipv4.tcp_keepalive_time", "600", "sysctl -w net.ipv4.tcp_keepalive_time=7200"),
        ("net.ipv4.tcp_synack_retries", "2", "sysctl -w net.ipv4.tcp_synack_retries=5"),
    ],
)
def test_what_old_guides_change_for_nothing_is_said(
    machine: Machine, name: str, value: str, fix: str
) -> None:
    assert machine.row(name).verdict is Verdict.FINE
    machine.set(name, value)
    row = machine.row(name)
    assert (row.verdict, row.fix) == (Verdict.ADVICE, fix)
    assert row.why == f"Changed from its default, {row.default}."
