"""Limits of this process's control groups (versions 1 and 2): time, memory, processes."""

from __future__ import annotations

from collections.abc import Iterator

from bolide.doctor.finding import Case, Check, Judgement, Verdict, fine, numbers
from bolide.doctor.source import Unreadable

GROUP = "control group"
FULL_SHARE = 0.9
MEMORY_NONE = 1 << 60
"""Version 1 writes "no limit" as the largest number of whole pages, which is above this."""
NONE = "none", fine("No limit is set.")


def _folders(case: Case, controller: str) -> tuple[int, list[str]]:
    """Find the version and the folders of a controller, from this process's group to the root.

    Raises:
        Unreadable: there is no such controller here, or its files are not mounted.
    """
    groups: dict[str, str] = {}
    for line in case.source.text("proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        groups |= {each: group for each in controllers.split(",")}
    version = 1 if controller in groups else 2
    found = [groups[each] for each in (controller, "") if each in groups]
    if not found:
        raise Unreadable(f"this process is not in a control group of {controller}")
    mounted = _mount_point(case, controller if version == 1 else "")
    parts = [part for part in found[0].split("/") if part and part != ".."]
    folders = ["/".join([mounted, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    # Without a namespace of its own, a container sees its group as the root of what is mounted.
    return version, [each for each in folders if case.source.exists(each)]


def _mount_point(case: Case, controller: str) -> str:
    for line in case.source.text("proc/self/mounts").splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        _, place, kind, options, *_ = words
        if kind == ("cgroup" if controller else "cgroup2") and (
            not controller or controller in options.split(",")
        ):
            return place.lstrip("/")
    what = f"of controller {controller}" if controller else "of version 2"
    raise Unreadable(f"no control group file system {what} is mounted")


def _texts(case: Case, folders: list[str], name: str) -> Iterator[tuple[str, str]]:
    """Read a file of each folder that has it; the root of version 2 has no limits."""
    for folder in folders:
        try:
            yield folder, case.source.text(f"{folder}/{name}").strip()
        except Unreadable as error:
            if not error.is_absent:
                raise


def _processor_time(case: Case) -> tuple[str, Judgement]:
    version, folders = _folders(case, "cpu")
    quotas: list[tuple[float, str]] = []
    for folder, text in _texts(case, folders, "cpu.max" if version == 2 else "cpu.cfs_quota_us"):
        if text in ("-1", "") or text.startswith("max"):
            continue
        period = "" if version == 2 else case.source.text(f"{folder}/cpu.cfs_period_us")
        quota_us, period_us = _pair(f"{text} {period}", folder)
        quotas.append((quota_us / period_us, folder))
    if not quotas:
        return NONE
    processors, folder = min(quotas)
    value = f"{processors:g} processors"
    text = case.source.text_or(f"{folder}/cpu.stat", "")
    now, before = _throttled(text), _throttled(case.earlier.get(f"{folder}/cpu.stat", text))
    fix = "raise the quota (CPUQuota=, --cpus), or pin to whole processors (cpuset) instead"
    if now > before:
        why = "The group was throttled during the sample: its quota was used up."
        return value, Judgement(Verdict.LIMITS, why, fix)
    if now:
        why = f"The group was throttled {now:,} times since its start: responses wait up to 0.1 s."
        return value, Judgement(Verdict.ADVICE, why, fix)
    return value, fine("The group has not been throttled yet.")


def _pair(text: str, folder: str) -> tuple[int, int]:
    found = numbers(text, f"/{folder}")
    if len(found) != 2 or found[1] <= 0:
        raise Unreadable(f"/{folder} has the quota {text!r}")
    return found[0], found[1]


def counting_files(case: Case) -> list[str]:
    """Return the files with counters that the sample reads twice."""
    try:
        _, folders = _folders(case, "cpu")
    except Unreadable:
        return []
    return [f"{folder}/cpu.stat" for folder in folders]


def _throttled(text: str) -> int:
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "nr_throttled":
            return numbers(count, name)[0]
    return 0


def _memory(case: Case) -> tuple[str, Judgement]:
    version, folders = _folders(case, "memory")
    limit_name, used_name = (
        ("memory.max", "memory.current")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    what = "memory, page cache included"
    return _share(case, folders, (limit_name, used_name), what, 1 << 20, " MiB")


def _processes(case: Case) -> tuple[str, Judgement]:
    _, folders = _folders(case, "pids")
    return _share(case, folders, ("pids.max", "pids.current"), "processes and threads", 1, "")


def _share(
    case: Case, folders: list[str], names: tuple[str, str], what: str, divisor: int, unit: str
) -> tuple[str, Judgement]:
    """Judge the limit that is closest to being reached."""
    found: list[tuple[float, int, int]] = []
    for folder, text in _texts(case, folders, names[0]):
        most = MEMORY_NONE if text == "max" else numbers(text, f"/{folder}/{names[0]}")[0]
        if most >= MEMORY_NONE:
            continue
        [used, *_] = numbers(case.source.text(f"{folder}/{names[1]}"), f"/{folder}/{names[1]}")
        found.append((used / most if most else 1.0, used, most))
    if not found:
        return NONE
    share, used, most = max(found)
    value = f"{used // divisor:,} of {most // divisor:,}{unit}"
    if share > FULL_SHARE:
        why = f"{share:.0%} of the {what} that the group may use."
        return value, Judgement(Verdict.LIMITS, why, f"raise {names[0]}, or find what uses it")
    return value, fine(f"{share:.0%} of the {what} that the group may use.")


CHECKS = (
    Check(
        "processor time",
        GROUP,
        "A quota of processor time, usually per 0.1 s. A group that has used its share is stopped "
        "until the next period, and so are its responses.",
        "Use whole processors (cpuset) for servers that must respond quickly.",
        _processor_time,
    ),
    Check(
        "memory",
        GROUP,
        "Memory of the group. Above it, pages are reclaimed, then a process is killed.",
        "Allow for the connections times the server's bound for each, plus the application.",
        _memory,
    ),
    Check(
        "processes",
        GROUP,
        "Processes and threads of the group. Above it, none can be started.",
        "Allow for the workers, their threads, and what the application starts.",
        _processes,
    ),
)
