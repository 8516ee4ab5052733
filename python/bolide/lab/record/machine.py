"""The machine: its description, and the kernel's counters before and after a trial."""

from __future__ import annotations

import gzip
import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from bolide.lab.record.schema import KernelDelta, Machine

SYSCTLS = (
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "kernel.randomize_va_space",
)
"""Settings that the studies' documents mention, and others that the figures depend on."""

BUILT_FOR_TESTS = "built for tests"

TASK_COLUMNS = (0, 1, 2)
"""Columns of a line `cpuN` of /proc/stat: user, nice, system."""
IRQ_COLUMNS = (5, 6)
"""The same: irq, softirq."""
STEAL_COLUMN = 7
CPUS = Path("/sys/devices/system/cpu")
CONFIG = Path("/proc/config.gz")
"""The kernel's configuration; distributions have it in /boot."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def now() -> str:
    """Return the time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def describe() -> Machine:
    """Describe this machine."""
    return Machine(
        distribution=_distribution(),
        kernel=f"{platform.system()} {platform.release()}",
        cpu_model=_cpu_model(),
        cpus=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sysctls={name: text for name in SYSCTLS if (text := _sysctl(name)) is not None},
        limits={
            "nofile_soft": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "nofile_hard": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        },
        virtualisation=_virtualisation(),
        started_at=now(),
        bolide_version=_bolide_version(),
        shared_cores=_shared_cores(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str | None:
    return " ".join(_read(f"/proc/sys/{name.replace('.', '/')}").split()) or None


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _cpu_model() -> str | None:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine() or None


def _shared_cores() -> tuple[tuple[int, ...], ...] | None:
    """Return the processors of each core that has several; None if the kernel shows no cores."""
    files = CPUS.glob("cpu[0-9]*/topology/thread_siblings_list")
    lists = {text for each in files if (text := _read(str(each)).strip())}
    if not lists:
        return None
    cores = (_processors_of(each) for each in lists)
    return tuple(sorted(each for each in cores if len(each) > 1))


def _processors_of(text: str) -> tuple[int, ...]:
    """Read a list of the kernel: "0,4" or "0-3"."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _virtualisation() -> str | None:
    """Return the hypervisor's name; "none" if the processor shows no sign of one."""
    flags = _read("/proc/cpuinfo")
    if not flags:
        return None
    if not any("hypervisor" in line.split() for line in flags.splitlines() if "flags" in line):
        return "none"
    folder = "/sys/class/dmi/id"
    names = (_read(f"{folder}/{each}").strip() for each in ("sys_vendor", "product_name"))
    return " ".join(name for name in names if name) or "unknown hypervisor"


def _bolide_version() -> str | None:
    try:
        version = importlib.metadata.version("bolide")
    except importlib.metadata.PackageNotFoundError:
        return None
    return version if is_release_build() else f"{version} ({BUILT_FOR_TESTS})"


def is_release_build() -> bool:
    """Return whether the Bolide that is measured is a release build, by starting it."""
    words = [
        sys.executable,
        "-P",
        "-c",
        "from bolide._core import is_release_build as it; print(it)",
    ]
    done = subprocess.run(  # noqa: S603 - itself
        words, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return done.stdout.strip() == "True"


@cache
def has_own_irq_time() -> bool:
    """Return whether the kernel counts the time of interrupts for no process.

    Otherwise it is part of the time of the process that was interrupted: of most packets on the
    loopback interface, the one that has sent them.
    """
    try:
        config = gzip.decompress(CONFIG.read_bytes()).decode()
    except (OSError, EOFError, zlib.error):
        config = _read(f"/boot/config-{platform.release()}")
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in config.splitlines()


class Counters:
    """The kernel's counters at one time, with the processor times of some processors."""

    def __init__(self, cpus: Iterable[int]) -> None:
        """Read the counters."""
        self._cpus = sorted(set(cpus))
        extended = _pairs(_read("/proc/net/netstat"), "TcpExt:")
        self.listen_overflows = extended.get("ListenOverflows")
        self.listen_drops = extended.get("ListenDrops")
        self.syncookies = extended.get("SyncookiesSent")
        self.retransmits = _pairs(_read("/proc/net/snmp"), "Tcp:").get("RetransSegs")
        times = _cpu_times(self._cpus)
        self._total_s = sum(sum(columns[: STEAL_COLUMN + 1]) for columns in times) / TICKS_PER_S
        self._steal_s = sum(columns[STEAL_COLUMN] for columns in times) / TICKS_PER_S
        tw = re.search(r"^TCP: .*\btw (\d+)", _read("/proc/net/sockstat"), re.MULTILINE)
        self.time_wait = int(tw[1]) if tw else None
        self._waited_s = _waited_s()
        self._at_s = time.monotonic()
        busy = TASK_COLUMNS if has_own_irq_time() else TASK_COLUMNS + IRQ_COLUMNS
        self.busy_s = sum(sum(columns[i] for i in busy) for columns in times) / TICKS_PER_S
        """Processor time of all processes."""
        self._irq_s = {
            cpu: sum(columns[i] for i in IRQ_COLUMNS) / TICKS_PER_S
            for cpu, columns in zip(self._cpus, times, strict=False)
        }

    def since(self, earlier: Counters) -> KernelDelta:
        """Return by how much they have increased."""
        total_s = self._total_s - earlier._total_s
        passed_s = self._at_s - earlier._at_s
        waited_share = {
            name: round((waited_s - earlier._waited_s[name]) / passed_s, 4)
            for name, waited_s in self._waited_s.items()
            if name in earlier._waited_s and passed_s > 0
        }
        return KernelDelta(
            listen_overflows=_increase(earlier.listen_overflows, self.listen_overflows),
            listen_drops=_increase(earlier.listen_drops, self.listen_drops),
            retransmits=_increase(earlier.retransmits, self.retransmits),
            syncookies=_increase(earlier.syncookies, self.syncookies),
            steal_share=(
                round((self._steal_s - earlier._steal_s) / total_s, 4) if total_s > 0 else None
            ),
            time_wait=_increase(earlier.time_wait, self.time_wait),
            waited_share=waited_share or None,
        )

    def interrupted_s(self, earlier: Counters, cpus: Iterable[int]) -> float | None:
        """Return for how long these processors handled interrupts that are no process's time.

        None if the kernel counts that as the time of processes.
        """
        if not has_own_irq_time():
            return None
        return sum(self._irq_s.get(cpu, 0.0) - earlier._irq_s.get(cpu, 0.0) for cpu in set(cpus))


def _increase(earlier: int | None, later: int | None) -> int | None:
    return None if earlier is None or later is None else later - earlier


def local_ports() -> int | None:
    """Return the number of ports for outgoing connections to one address."""
    words = (_sysctl("net.ipv4.ip_local_port_range") or "").split()
    return int(words[1]) - int(words[0]) + 1 if len(words) == 2 else None


def _waited_s() -> dict[str, float]:
    """Return how long some task has waited for each resource; {} if the kernel has no PSI."""
    found = {}
    for name in ("cpu", "memory", "io"):
        some = re.search(r"^some .*total=(\d+)", _read(f"/proc/pressure/{name}"), re.MULTILINE)
        if some:
            found[name] = int(some[1]) / 1e6
    return found


def _pairs(text: str, prefix: str) -> dict[str, int]:
    """Read the two lines, names and numbers, that start with the same word."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(prefix)]
    if len(lines) != 2:
        return {}
    return {name: int(value) for name, value in zip(*lines, strict=False)}


def _cpu_times(cpus: list[int]) -> list[list[int]]:
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = (line.split() for line in _read("/proc/stat").splitlines())
    return [[int(word) for word in words[1:]] for words in lines if words and words[0] in names]
