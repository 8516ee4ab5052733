"""In what two races differ besides their figures: loads, machine, tools, servers.

Rates of different loads are not compared (`check_loads`). Everything else may be what the
comparison is about, or spoil it, so it is named (`differences`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from bolide.errors import ConfigError
from bolide.lab.record.resume import MACHINE, changed, of_fleet
from bolide.lab.record.schema import Machine, Workload
from bolide.lab.report.compare import Change
from bolide.lab.report.summary import Figure, Race

PLAN = ("name", "duration_s", "contestants", "is_quick", "rounds", "group")
"""Fields of a workload that say when and for how long it is run, not what is sent."""

Pair = tuple[Figure, Figure]


def check_loads(before: Race, after: Race, rows: Sequence[Change]) -> None:
    """Refuse to compare different loads of the same name.

    Raises:
        ConfigError: a workload of both races has other connections, content or the like in B.
    """
    for change, (one, two) in zip(rows, _pairs(before, after, rows), strict=True):
        found = [*_loads(one.workload, two.workload)]
        if found:
            raise ConfigError(
                f"the races cannot be compared: the load {change.workload} of {change.study} has"
                f" {', '.join(found)}"
            )


def differences(before: Race, after: Race, rows: Sequence[Change]) -> list[str]:
    """Return what else is different in B for these rows, each once, with both values."""
    found = [*_machines(before.machine, after.machine)]
    for change, (one, two) in zip(rows, _pairs(before, after, rows), strict=True):
        found += _durations(change.study, one, two)
        found += _tools(one, two)
        found += _contestants(one, two)
    return list(dict.fromkeys(found))


def _pairs(before: Race, after: Race, rows: Sequence[Change]) -> list[Pair]:
    """Return the figures of each row in both races."""
    one, two = (
        {each.study.name: each.figures for each in race.results} for race in (before, after)
    )
    keys = [(row.study, (row.workload, row.contestant)) for row in rows]
    return [(one[study][key], two[study][key]) for study, key in keys]


def _loads(before: Workload, after: Workload) -> Iterator[str]:
    for name in Workload.__struct_fields__:
        one, two = getattr(before, name), getattr(after, name)
        if name not in PLAN and one != two:
            yield changed(name, _text(one), _text(two))


def _machines(before: Machine | None, after: Machine | None) -> Iterator[str]:
    if before is None or after is None:
        return
    for name, label in (
        MACHINE | {"cpus": "processors", "memory_bytes": "bytes of memory"}
    ).items():
        one, two = getattr(before, name), getattr(after, name)
        if one != two:
            yield changed(label, _text(one), _text(two))
    for name, label in (("server_cpus", "--cpus server"), ("load_cpus", "--cpus load")):
        one, two = getattr(before, name), getattr(after, name)
        if None not in (one, two) and one != two:  # the first records do not have them
            yield changed(label, ",".join(map(str, one)), ",".join(map(str, two)))
    if _machines_of(before) != _machines_of(after):
        yield changed("load from", of_fleet(before.fleet), of_fleet(after.fleet))
    for name in before.sysctls.keys() & after.sysctls.keys():
        if before.sysctls[name] != after.sysctls[name]:
            yield changed(name, before.sysctls[name], after.sysctls[name])


def _machines_of(machine: Machine) -> list[str] | None:
    """Return the machines of a fleet's agents in any order; None without a fleet."""
    if machine.fleet is None:
        return None
    return sorted(repr(each.machine) for each in machine.fleet.agents)


def _durations(study: str, before: Figure, after: Figure) -> Iterator[str]:
    one, two = before.workload.duration_s, after.workload.duration_s
    if one != two:
        yield changed(f"duration of {study}", _seconds(one), _seconds(two))


def _tools(before: Figure, after: Figure) -> Iterator[str]:
    one, two = (
        ", ".join(sorted({each.tool_version or "" for each in figure.trials}))
        for figure in (before, after)
    )
    if one != two:
        yield changed(before.workload.tool, one, two)


def _contestants(before: Figure, after: Figure) -> Iterator[str]:
    one, two = before.contestant, after.contestant
    if one.version != two.version:
        yield changed(one.name, one.version, two.version)
    if one.settings != two.settings:
        yield f"{one.name} with other settings"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _seconds(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g} s"
