"""Processors: how many, how fast, how much of them somebody else has; and large pages."""

from __future__ import annotations

from bolide.doctor.finding import Case, Check, Judgement, Role, Verdict, fine, numbers
from bolide.doctor.source import Unreadable

GROUP = "processor"
STEAL_SHARE_MAX = 0.01
STEAL_COLUMN = 7
"""Of the line `cpu` of /proc/stat, after its name: user, nice, system, idle, iowait, irq, ..."""
COLUMNS = 8
"""Up to steal; guest times behind it are part of user and nice already."""
CPU_FOLDER = "sys/devices/system/cpu"
DMI_FOLDER = "sys/class/dmi/id"
THP_FILE = "sys/kernel/mm/transparent_hugepage/enabled"


def usable_count(case: Case) -> int:
    """Count the processors that this process may run on.

    Raises:
        Unreadable: /proc/self/status does not say it.
    """
    for line in case.source.text("proc/self/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return _count(line.partition(":")[2].strip())
    raise Unreadable("/proc/self/status has no Cpus_allowed_list")


def _count(ranges: str) -> int:
    """Count what a list like "0-3,8" names."""
    try:
        bounds = [part.partition("-") for part in ranges.split(",")]
        return sum(int(last or first) - int(first) + 1 for first, _, last in bounds)
    except ValueError:
        raise Unreadable(f"{ranges!r} is no list of processors") from None


def _usable(case: Case) -> tuple[str, Judgement]:
    usable = usable_count(case)
    online = _count(case.source.text(f"{CPU_FOLDER}/online").strip())
    value = f"{usable} of {online}"
    if usable == 1 and case.load.role is Role.LOOPBACK:
        why = "Server and load generator share one processor; neither can be measured."
        return value, Judgement(Verdict.BITES, why, "measure with two processors or two machines")
    if usable < online:
        return value, fine("This process is kept from the others (taskset, cpuset).")
    return value, fine("All that there are.")


def _frequency(case: Case) -> tuple[str, Judgement]:
    names = case.source.names(CPU_FOLDER)
    folders = [f"{CPU_FOLDER}/{name}/cpufreq" for name in names if name[3:].isdigit()]
    folders = [each for each in folders if case.source.exists(f"{each}/scaling_governor")]
    if not folders:
        raise Unreadable("no cpufreq in sysfs; a guest's frequency is its host's affair")
    governors = {case.source.text(f"{each}/scaling_governor").strip() for each in folders}
    speeds = [numbers(case.source.text(f"{each}/scaling_cur_freq"), each)[0] for each in folders]
    most = max(numbers(case.source.text(f"{each}/cpuinfo_max_freq"), each)[0] for each in folders)
    span = f"{min(speeds) / 1e6:.1f} to {max(speeds) / 1e6:.1f} of {most / 1e6:.1f} GHz"
    value = f"{', '.join(sorted(governors))}; {span}"
    if governors == {"performance"}:
        return value, fine("As fast as temperature and power allow.")
    why = "The frequency follows the load; first seconds and light loads are measured slower."
    return value, Judgement(Verdict.ADVICE, why, "cpupower frequency-set -g performance")


def _steal(case: Case) -> tuple[str, Judgement]:
    before, now = (_times(text) for text in case.sampled("proc/stat"))
    spent = [after - earlier for earlier, after in zip(before, now, strict=True)]
    total = sum(spent)
    if total <= 0:
        raise Unreadable("no processor time has passed in the sample")
    share = spent[STEAL_COLUMN] / total
    value = f"{share:.1%}"
    if share > STEAL_SHARE_MAX:
        why = "Another guest of the host had that much of this machine's time during the sample."
        return value, Judgement(Verdict.BITES, why, "measure again, or on another machine")
    return value, fine("Nobody took any during the sample." if not share else "Little.")


def _times(stat: str) -> list[int]:
    for line in stat.splitlines():
        if line.startswith("cpu "):
            times = numbers(line[4:], "/proc/stat")[:COLUMNS]
            if len(times) == COLUMNS:
                return times
    raise Unreadable("/proc/stat has no line of all processors with steal")


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
        why = "Its host's other guests are felt; compare only figures of one interleaved run."
        return value, fine(why)
    if not maker:
        raise Unreadable("neither the processor's flags nor the firmware's names tell")
    return maker, fine("No sign of a hypervisor.")


def _large_pages(case: Case) -> tuple[str, Judgement]:
    text = case.source.text(THP_FILE)
    chosen = text.partition("[")[2].partition("]")[0]
    if not chosen:
        raise Unreadable(f"/{THP_FILE} holds {text.strip()!r}")
    if chosen == "always":
        why = "Processes may take more memory than they use, and wait while pages are put together."
        return chosen, Judgement(Verdict.ADVICE, why, f"echo madvise > /{THP_FILE}")
    return chosen, fine("Only where a program asks for them." if chosen == "madvise" else "Off.")


CHECKS = (
    Check(
        "usable processors",
        GROUP,
        "A worker is one thread: more processors serve more workers, not one worker faster.",
        "As many workers as processors; on loopback leave one for the load generator.",
        _usable,
    ),
    Check(
        "processor frequency",
        GROUP,
        "How fast a request is handled; governors below performance raise it only under load.",
        "performance on machines that measure; on servers it is a question of power.",
        _frequency,
    ),
    Check(
        "steal",
        GROUP,
        "Processor time that the hypervisor gave to another guest while this one wanted it.",
        "Above 1 % no figure of this machine is to be trusted.",
        _steal,
    ),
    Check(
        "machine",
        GROUP,
        "Whether there is a hypervisor below; it makes system calls and wake-ups dearer.",
        "Say it beside every figure.",
        _machine,
    ),
    Check(
        "transparent huge pages",
        GROUP,
        "Memory in pages of 2 MB, which saves look-ups and may take time to put together.",
        "madvise.",
        _large_pages,
    ),
)
