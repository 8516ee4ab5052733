"""What is no kernel setting: process limits, processors, pressure, control groups, counters."""

from __future__ import annotations

import pytest

from bolide.doctor.finding import Load, Role, Verdict
from doctor.machine import CPU_FOLDER, V2, Machine, named

pytestmark = pytest.mark.slow

LIMITS, ADVICE, FINE, UNKNOWN = Verdict.LIMITS, Verdict.ADVICE, Verdict.FINE, Verdict.UNKNOWN
MANY = Load(connections=10_000)


@pytest.mark.parametrize(
    ("soft", "hard", "verdicts", "fix"),
    [
        (10_200, 10_200, (FINE, FINE), ""),
        ("unlimited", "unlimited", (FINE, FINE), ""),
        (10_199, 524_288, (LIMITS, FINE), "ulimit -n 16384"),
        (1024, 12_000, (LIMITS, FINE), "ulimit -n 10200"),
        (1024, 4096, (LIMITS, LIMITS), "raise the hard limit first"),
    ],
)
def test_descriptors(
    machine: Machine,
    soft: int | str,
    hard: int | str,
    verdicts: tuple[Verdict, Verdict],
    fix: str,
) -> None:
    machine.limits(soft, hard)
    rows = [machine.row(f"descriptors ({which})", MANY) for which in ("soft", "hard")]
    assert tuple(row.verdict for row in rows) == verdicts
    assert [row.value for row in rows] == [str(soft), str(hard)]
    assert rows[0].fix == fix


def test_limits_that_cannot_be_read_are_unknown(machine: Machine) -> None:
    machine.write("proc/self/limits", "nothing\n")
    row = machine.row("descriptors (soft)")
    assert (row.verdict, row.value) == (UNKNOWN, None)
    assert row.why == "/proc/self/limits has no line 'Max open files'."


def test_one_processor_for_both_ends_limits(machine: Machine) -> None:
    machine.write("proc/self/status", "Cpus_allowed_list:\t3\n")
    row = machine.row("usable processors", Load(role=Role.LOOPBACK))
    assert (row.verdict, row.value) == (LIMITS, "1 of 8")
    assert machine.row("usable processors", Load(role=Role.SERVER)).verdict is FINE
    machine.write("proc/self/status", "Cpus_allowed_list:\t0,2-3\n")
    assert machine.row("usable processors").value == "3 of 8"


def test_frequency_and_governor(machine: Machine) -> None:
    row = machine.row("processor frequency")
    assert (row.verdict, row.value) == (FINE, "performance; 3.0 to 3.5 of 4.0 GHz")
    machine.write(f"{CPU_FOLDER}/cpu1/cpufreq/scaling_governor", "powersave\n")
    row = machine.row("processor frequency")
    assert (row.verdict, row.fix) == (ADVICE, "cpupower frequency-set -g performance")
    for number in range(2):
        machine.remove(f"{CPU_FOLDER}/cpu{number}/cpufreq/scaling_governor")
    row = machine.row("processor frequency")
    assert (row.verdict, row.value) == (UNKNOWN, None)
    assert row.why == "no cpufreq in sysfs; a guest's frequency is set by its host."


def test_steal_of_the_sample_only(machine: Machine) -> None:
    machine.times(steal=5000)  # long ago

    def wait(steal: int) -> None:
        machine.times(1000 + 990 - steal, 9000, 5000 + 10 + steal)

    row = named(machine.examine(wait=lambda: wait(0)), "steal")
    assert (row.verdict, row.value) == (FINE, "1.0%")
    machine.times(steal=5000)
    row = named(machine.examine(wait=lambda: wait(90)), "steal")
    assert (row.verdict, row.value) == (LIMITS, "10.0%")
    row = named(machine.examine(wait=lambda: None), "steal")
    assert (row.verdict, row.why) == (
        UNKNOWN,
        "no processor time passed during the sample.",
    )


def test_machine_says_whether_it_is_virtual(machine: Machine) -> None:
    assert machine.row("machine").value == "Maker Box 1"
    machine.write("proc/cpuinfo", "flags : fpu hypervisor sse2\n")
    machine.write(".dockerenv", "")
    assert machine.row("machine").value == "virtual (Maker Box 1, in a container)"


def test_huge_pages(machine: Machine) -> None:
    path = "sys/kernel/mm/transparent_hugepage/enabled"
    assert machine.row("transparent huge pages").value == "madvise"
    machine.write(path, "[always] madvise never\n")
    assert machine.row("transparent huge pages").verdict is ADVICE
    machine.remove(path)
    assert machine.row("transparent huge pages").verdict is UNKNOWN


@pytest.mark.parametrize("resource", ["cpu", "memory", "io"])
def test_pressure(machine: Machine, resource: str) -> None:
    name = f"pressure on {resource}"
    assert machine.row(name).verdict is FINE
    machine.pressure(resource, 80.21)
    row = machine.row(name)
    assert (row.verdict, row.value) == (LIMITS, "80.2 % of the last 10 s")
    machine.remove(f"proc/pressure/{resource}")
    assert machine.row(name).verdict is UNKNOWN


def test_no_group_limits(machine: Machine) -> None:
    for name in ("processor time", "memory", "processes"):
        row = machine.row(name)
        assert (row.verdict, row.value) == (FINE, "none"), name


def test_quota_of_the_tightest_group_above(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/app/worker\n")
    machine.write(f"{V2}/app/worker/cpu.max", "400000 100000\n")
    machine.write(f"{V2}/app/cpu.max", "150000 100000\n")
    row = machine.row("processor time")
    assert (row.verdict, row.value) == (FINE, "1.5 processors")
    machine.write(f"{V2}/app/cpu.stat", "usage_usec 5\nnr_throttled 3\n")
    assert machine.row("processor time").verdict is ADVICE

    def throttled() -> None:
        machine.write(f"{V2}/app/cpu.stat", "usage_usec 9\nnr_throttled 4\n")

    assert named(machine.examine(wait=throttled), "processor time").verdict is LIMITS


def test_quota_of_an_unexpected_form_is_unknown(machine: Machine) -> None:
    machine.write(f"{V2}/app/cpu.max", "100000\n")
    row = machine.row("processor time")
    assert (row.verdict, row.value) == (UNKNOWN, None)


def test_memory_and_processes_of_the_group(machine: Machine) -> None:
    machine.write(f"{V2}/app/memory.max", f"{200 << 20}\n")
    row = machine.row("memory")
    assert (row.verdict, row.value) == (FINE, "100 of 200 MiB")
    machine.write(f"{V2}/app/memory.current", f"{190 << 20}\n")
    assert machine.row("memory").verdict is LIMITS
    machine.write(f"{V2}/app/pids.max", "13\n")
    row = machine.row("processes")
    assert (row.verdict, row.value) == (LIMITS, "12 of 13")


def test_version_1_of_control_groups(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n")
    machine.write(
        "proc/self/mounts",
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
    )
    machine.write(f"{V2}/unified/cgroup.procs", "")
    cpu = f"{V2}/cpu,cpuacct/box"
    machine.write(f"{cpu}/cpu.cfs_quota_us", "-1\n")
    machine.write(f"{V2}/memory/box/memory.limit_in_bytes", "9223372036854771712\n")
    assert [machine.row(name).value for name in ("processor time", "memory")] == ["none", "none"]
    machine.write(f"{cpu}/cpu.cfs_quota_us", "50000\n")
    machine.write(f"{cpu}/cpu.cfs_period_us", "100000\n")
    machine.write(f"{V2}/memory/box/memory.limit_in_bytes", f"{64 << 20}\n")
    machine.write(f"{V2}/memory/box/memory.usage_in_bytes", f"{16 << 20}\n")
    assert machine.row("processor time").value == "0.5 processors"
    assert machine.row("memory").value == "16 of 64 MiB"


def test_no_control_groups_are_unknown(machine: Machine) -> None:
    machine.remove("proc/self/mounts")
    row = machine.row("memory")
    assert (row.verdict, row.value) == (UNKNOWN, None)
    machine.write("proc/self/mounts", "proc /proc proc rw 0 0\n")
    assert machine.row("memory").why.startswith(
        "no control group file system of version 2 is mounted"
    )


@pytest.mark.parametrize(
    "name", ["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPTimeWaitOverflow"]
)
def test_counter(machine: Machine, name: str) -> None:
    assert machine.row(name).verdict is FINE
    machine.count(**{name: 5000})
    row = machine.row(name)
    assert (row.verdict, row.value) == (ADVICE, "5,000")
    row = named(machine.examine(wait=lambda: machine.count(**{name: 5003})), name)
    assert (row.verdict, row.why) == (LIMITS, "3 more during the sample.")


def test_counter_that_a_kernel_lacks_is_unknown(machine: Machine) -> None:
    machine.write("proc/net/netstat", "TcpExt: ListenDrops\nTcpExt: 0\n")
    assert machine.row("ListenDrops").verdict is FINE
    assert machine.row("ListenOverflows").verdict is UNKNOWN


def test_time_wait_against_the_ports(machine: Machine) -> None:
    assert machine.row("in TIME_WAIT").value == "9"
    machine.write("proc/net/sockstat", "TCP: inuse 1 orphan 0 tw 23000 alloc 1 mem 3\n")
    assert machine.row("in TIME_WAIT").verdict is ADVICE
    assert machine.row("in TIME_WAIT", Load(role=Role.SERVER)).verdict is FINE
