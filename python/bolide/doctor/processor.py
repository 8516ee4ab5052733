"""Processors: number, frequency, steal, hypervisor; and transparent huge pages."""

from __future__ import annotations

from bolide.doctor.finding import Case, Check, Judgement, Role, Verdict, fine, numbers
from bolide.doctor.source import Unreadable

GROUP = "processor"
STEAL_SHARE_MAX = 0.01
STEAL_COLUMN = 7
"""Columns of the line `cpu` of /proc/stat: user, nice, system, idle, iowait, irq, ..."""
COLUMNS = 8
"""Up to steal; the guest times after it are already part of user and nice."""
CPU_FOLDER = "sys/devices/system/cpu"
DMI_FOLDER = "sys/class/dmi/id"
THP_FILE = "sys/kernel/mm/transparent_hugepage/enabled"


def usable_count(case: Case) -> int:
    """Count the processors that this process may run on.

    Raises:
        Unreadable: /proc/self/status does not list them.
    """
    for line in case.source.text("proc/self/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return _count(line.partition(":")[2].strip())
    raise Unreadable("/proc/self/status has no Cpus_allowed_list")


def _count(ranges: str) -> int:
    """Count the processors in a list like "0-3,8"."""
    try:
        bounds = [part.partition("-") for part in ranges.split(",")]
        return sum(int(last or first) - int(first) + 1 for first, _, last in bounds)
    except ValueError:
        raise Unreadable(f"{ranges!r} is not a list of processors") from None


def _usable(case: Case) -> tuple[str, Judgement]:
    usable = usable_count(case)
    online = _count(case.source.text(f"{CPU_FOLDER}/online").strip())
    value = f"{usable} of {online}"
    if usable == 1 and case.load.role is Role.LOOPBACK:
        why = "Server and load generator share one processor, so neither can be measured."
        return value, Judgement(Verdict.LIMITS, why, "measure with two processors or two machines")
    if usable < online:
        return value, fine("This process may not use the others (taskset, cpuset).")
    return value, fine("All processors.")


def _frequency(case: Case) -> tuple[str, Judgement]:
    names = case.source.names(CPU_FOLDER)
    folders = [f"{CPU_FOLDER}/{name}/cpufreq" for name in names if name[3:].isdigit()]
    folders = [each for each in folders if case.source.exists(f"{each}/scaling_governor")]
    if not folders:
        raise Unreadable("no cpufreq in sysfs; a guest's frequency is set by its host")
    governors = {case.source.text(f"{each}/scaling_governor").strip() for each in folders}
    speeds = [numbers(case.source.text(f"{each}/scaling_cur_freq"), each)[0] for each in folders]
    most = max(numbers(case.source.text(f"{each}/cpuinfo_max_freq"), each)[0] for each in folders)
    span = f"{min(speeds) / 1e6:.1f} to {max(speeds) / 1e6:.1f} of {most / 1e6:.1f} GHz"
    value = f"{', '.join(sorted(governors))}; {span}"
    if governors == {"performance"}:
        return value, fine("As fast as temperature and power allow.")
    why = "The frequency follows the load, so the first seconds and light loads are slower."
    return value, Judgement(Verdict.ADVICE, why, "cpupower frequency-set -g performance")


def _steal(case: Case) -> tuple[str, Judgement]:
    before, now = (_times(text) for text in case.sampled("proc/stat"))
    spent = [after - earlier for earlier, after in zip(before, now, strict=True)]
    total = sum(spent)
    if total <= 0:
        raise Unreadable("no processor time passed during the sample")
    share = spent[STEAL_COLUMN] / total
    value = f"{share:.1%}"
    if share > STEAL_SHARE_MAX:
        why = "Other guests of the host took that share of this machine's time during the sample."
        return value, Judgement(Verdict.LIMITS, why, "measure again, or on another machine")
    return value, fine("None was taken during the sample." if not share else "Little.")


def _times(stat: str) -> list[int]:
    for line in stat.splitlines():
        if line.startswith("cpu "):
            times = numbers(line[4:], "/proc/stat")[:COLUMNS]
            if len(times) == COLUMNS:
                return times
    raise Unreadable("/proc/stat has no line `cpu` with steal")


def _machine(case: Case) -> tuple[str, Judgement]:
    flags = case.source.text("proc/cpuinfo")
    is_guest = any(
        line.startswith("flags") and "hypervisor" in line.split() for line in flags.splitlines()
    )
    parts = [
        case.source.text_or(f"{DMI_FOLDER}/{n}", "").strip() for n in ("sys_vendor", "product_name")
    ]
    maker = " ".join(part for part in parts if part)
    if case.source.exists(".dockerenv") or case.source.exists("run/.containerenv"):
        maker = f"{maker}, in a container".lstrip(", ")
    if is_guest:
        value = f"virtual ({maker})" if maker else "virtual"
        why = "Other guests of the host affect it; compare only figures of one interleaved run."
        return value, fine(why)
    if not maker:
        raise Unreadable("neither the processor's flags nor the firmware's names show it")
    return maker, fine("No sign of a hypervisor.")


def _large_pages(case: Case) -> tuple[str, Judgement]:
    text = case.source.text(THP_FILE)
    chosen = text.partition("[")[2].partition("]")[0]
    if not chosen:
        raise Unreadable(f"/{THP_FILE} holds {text.strip()!r}")
    if chosen == "always":
        why = "Processes may take more memory than they use, and wait while pages are compacted."
        return chosen, Judgement(Verdict.ADVICE, why, f"echo madvise > /{THP_FILE}")
    return chosen, fine("Used only if a program asks for them." if chosen == "madvise" else "Off.")


CHECKS = (
    Check(
        "usable processors",
        GROUP,
        "A worker is one thread: more processors allow more workers, but make none faster.",
        "Start as many workers as processors; on loopback leave one for the load generator.",
        _usable,
    ),
    Check(
        "processor frequency",
        GROUP,
        "How fast a request is handled; other governors than performance raise it only under load.",
        "Use performance for measurements; on servers it is a matter of power consumption.",
        _frequency,
    ),
    Check(
        "steal",
        GROUP,
        "Processor time that the hypervisor gave to another guest while this one wanted it.",
        "Above 1 %, do not trust figures from this machine.",
        _steal,
    ),
    Check(
        "machine",
        GROUP,
        "Whether the machine is virtual, which makes system calls and wake-ups slower.",
        "Mention it with every figure.",
        _machine,
    ),
    Check(
        "transparent huge pages",
        GROUP,
        "Memory in pages of 2 MB, which saves address look-ups but may take time to compact.",
        "madvise.",
        _large_pages,
    ),
)
