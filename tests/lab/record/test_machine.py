"""The kernel's counters before and after a trial, from a /proc of the test's own."""

from __future__ import annotations

import gzip
import platform
from pathlib import Path

import pytest

from bolide.lab.record import machine
from bolide.lab.record.schema import KernelDelta

TCP = "Tcp: InSegs RetransSegs\nTcp: 1000 {retransmits}\n"
EXTENDED = (
    "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: {syncookies} {drops} {drops}\n"
)
SOCKETS = "sockets: used 9\nTCP: inuse 5 orphan 0 tw {time_wait} alloc 6 mem 1\n"
STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {busy} 0 0 100 0 0 0 {steal} 0 0\n"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us}\nfull avg10=0.00 total=7\n"


def _counters(monkeypatch: pytest.MonkeyPatch, at_s: float, **values: int) -> machine.Counters:
    files = {
        "/proc/net/snmp": TCP,
        "/proc/net/netstat": EXTENDED,
        "/proc/stat": STAT,
        "/proc/net/sockstat": SOCKETS,
        "/proc/pressure/memory": PRESSURE if "waited_us" in values else "",
    }
    monkeypatch.setattr(machine, "has_own_irq_time", lambda: False)
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, "").format(**values))
    monkeypatch.setattr(machine.time, "monotonic", lambda: at_s)
    return machine.Counters([0])


def test_what_rose_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        "retransmits": 5,
        "syncookies": 1,
        "drops": 10,
        "busy": 200,
        "steal": 0,
        "time_wait": 0,
    }
    after = {
        "retransmits": 8,
        "syncookies": 1,
        "drops": 30,
        "busy": 290,
        "steal": 10,
        "time_wait": 77,
    }
    first = _counters(monkeypatch, 100.0, **before, waited_us=1_000_000)
    second = _counters(monkeypatch, 102.0, **after, waited_us=1_500_000)
    assert second.since(first) == KernelDelta(
        listen_overflows=20,
        listen_drops=20,
        retransmits=3,
        syncookies=0,
        steal_share=0.1,
        time_wait=77,
        waited_share={"memory": 0.25},
    )
    assert second.busy_s - first.busy_s == pytest.approx(90 / machine.TICKS_PER_S)


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [
        ([], None),
        (["0", "1"], ()),
        (["0,2", "1,3", "0,2", "1,3"], ((0, 2), (1, 3))),
        (["0-3", "0-3", "0-3", "0-3"], ((0, 1, 2, 3),)),
        (["0,8-9", "1"], ((0, 8, 9),)),
    ],
)
def test_processors_of_one_core_are_known(
    siblings: list[str],
    expected: tuple[tuple[int, ...], ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, text in enumerate(siblings):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    (tmp_path / "cpufreq").mkdir()
    monkeypatch.setattr(machine, "CPUS", tmp_path)
    assert machine.describe().shared_cores == expected


IRQ_STAT = "cpu0 {busy} 0 0 100 0 3 {soft} 0 0 0\ncpu1 {busy} 0 0 100 0 0 7 0 0 0\n"


@pytest.mark.parametrize(("is_own", "busy"), [(True, 100), (False, 130)])
def test_interrupts_are_time_of_processes_if_the_kernel_says_so(
    is_own: bool, busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "has_own_irq_time", lambda: is_own)

    def counters(**values: int) -> machine.Counters:
        monkeypatch.setattr(machine, "_read", lambda path: IRQ_STAT.format(**values))
        return machine.Counters([0, 1])

    first, second = counters(busy=0, soft=0), counters(busy=50, soft=30)
    tick_s = 1 / machine.TICKS_PER_S
    assert second.busy_s - first.busy_s == pytest.approx(busy * tick_s)
    for cpus, ticks in (((0,), 30), ((1,), 0), ((0, 1), 30)):
        known = pytest.approx(ticks * tick_s) if is_own else None
        assert second.interrupted_s(first, cpus) == known


@pytest.mark.parametrize(
    ("config", "is_own"),
    [
        ("CONFIG_IRQ_TIME_ACCOUNTING=y\nCONFIG_A=y\n", True),
        ("# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n", False),
        ("", False),
    ],
)
def test_how_interrupts_are_counted_is_in_the_configuration_of_the_kernel(
    config: str, is_own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is in the first of two places that exists."""
    packed = tmp_path / "config.gz"
    monkeypatch.setattr(machine, "CONFIG", packed)
    monkeypatch.setattr(machine, "_read", lambda path: config if "/boot/config-" in path else "")
    assert machine.has_own_irq_time.__wrapped__() is is_own
    packed.write_bytes(gzip.compress(config.encode()))
    monkeypatch.setattr(machine, "_read", lambda path: "")
    assert machine.has_own_irq_time.__wrapped__() is is_own


def test_what_the_kernel_does_not_report_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_read", lambda path: "")
    counters = machine.Counters([0])
    assert counters.since(counters) == KernelDelta()


def test_the_distribution_is_named_where_it_says_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise FileNotFoundError("/etc/os-release")

    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "Some 12"})
    assert machine.describe().distribution == "Some 12"
    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    assert machine.describe().distribution is None
