"""Whether a race may use a folder: an empty one, or that of the same race to resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bolide.errors import ConfigError
from bolide.lab.record import journal
from bolide.lab.record.schema import Contestant, Fleet, Machine, Record, Study, Trial

MACHINE = {
    "kernel": "kernel",
    "cpu_model": "processor",
    "python": "Python",
    "bolide_version": "Bolide",
}
"""Fields of the machine that must not change before a race is resumed, and their names."""


def check_new(out: Path, *, resumes: bool) -> None:
    """Refuse to append to the results of another race.

    Raises:
        ConfigError: there are results, and the race is not resumed.
    """
    path = out / journal.FILE_NAME
    if not resumes and path.exists() and path.stat().st_size:
        raise ConfigError(f"{out} has results already; add --resume, or name another --out")
    packed = path.with_name(f"{path.name}.gz")
    if packed.exists() and not path.exists():
        raise ConfigError(f"{packed} is compressed; gunzip it to resume, or name another --out")


def check_same(
    out: Path,
    earlier: Sequence[Record],
    now: Sequence[Record],
    versions: Mapping[str, str | None],
) -> None:
    """Refuse to mix two races; `now` are the records that a race writes before its trials.

    `versions` are those of the tools.

    Raises:
        ConfigError: the folder's race has another study, other contestants, other versions of
            something, another machine, other processors, settings or limits, or another order.
    """
    [machine] = (each for each in now if isinstance(each, Machine))
    [study] = (each for each in now if isinstance(each, Study))
    field = {each.name: each for each in now if isinstance(each, Contestant)}
    for record in earlier:
        if isinstance(record, Study):
            found = f"{record.name}, other settings" if record != study else ""
        elif isinstance(record, Machine):
            found = _other_part(record, machine)
        elif isinstance(record, Contestant):
            found = _other_contestant(record, field.get(record.name))
        else:
            found = _other_tool(record, versions)
        if found:
            raise _refusal(out, found)
    known = {each.name for each in earlier if isinstance(each, Contestant)}
    added = ", ".join(sorted(field.keys() - known))
    if known and added:
        raise _refusal(out, f"without {added}, which would need its own rounds")


def _refusal(out: Path, found: str) -> ConfigError:
    return ConfigError(f"{out} has another race ({found}); name another --out")


def _other_part(before: Machine, now: Machine) -> str:
    """Return which part of a machine differs, with the flag that selects it."""
    if before.server_cpus is not None:
        if before.seed != now.seed:
            return f"--seed {before.seed}"
        cpus = (before.server_cpus, before.load_cpus)
        if cpus != (now.server_cpus, now.load_cpus):
            server, load = (",".join(map(str, each or ())) for each in cpus)
            return f"--cpus server={server} load={load}"
    if found := _other_fleet(before.fleet, now.fleet):
        return found
    pairs = ((label, getattr(before, name), getattr(now, name)) for name, label in MACHINE.items())
    found = next((changed(*each) for each in pairs if each[1] != each[2]), "")
    return found or _other_setting(before, now) or _other_hash(before.parts, now.parts)


def _other_setting(before: Machine, now: Machine) -> str:
    """Return which setting of the kernel, or limit of the process, is another one now."""
    for one, two in ((before.sysctls, now.sysctls), (before.limits, now.limits)):
        for name in one.keys() & two.keys():
            if one[name] != two[name]:
                return changed(name, str(one[name]), str(two[name]))
    return ""


def _other_fleet(before: Fleet | None, now: Fleet | None) -> str:
    """Return that another fleet generates the load; agents may have been started again."""
    if before is None or now is None:
        return "" if before is now else changed("load from", of_fleet(before), of_fleet(now))
    if before.server_address != now.server_address:
        return f"--server-address {before.server_address}"
    machines = [sorted(repr(agent.machine) for agent in each.agents) for each in (before, now)]
    if machines[0] != machines[1] or before.is_local != now.is_local:
        return changed("load from", of_fleet(before), of_fleet(now))
    return ""


def of_fleet(fleet: Fleet | None) -> str:
    """Return where a race's load comes from, in a few words."""
    if fleet is None:
        return "the race's machine"
    machines = ", ".join(f"{each.name}@{each.host}" for each in fleet.agents)
    return f"{len(fleet.agents)} agents ({machines})"


def _other_hash(before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    """Return which part is not the same file, text or list any more."""
    if before is None or now is None:
        return "" if before == now else "of another Bolide, without hashes of what it ran"
    names = [*before, *(name for name in now if name not in before)]
    return next((f"{name} changed" for name in names if before.get(name) != now.get(name)), "")


def _other_contestant(before: Contestant, now: Contestant | None) -> str:
    if now is None:
        return f"with {before.name}, whose rounds would be from different times"
    if before.state != now.state:  # in both cases, its rounds would be from different times
        return changed(f"{now.name} was", before.state, now.state)
    if before.version != now.version:
        return changed(now.name, before.version, now.version)
    if before.settings != now.settings:
        return f"{now.name} with other settings"
    found = _other_hash(before.parts, now.parts)
    return found and f"{now.name}: {found}"


def _other_tool(before: Trial, versions: Mapping[str, str | None]) -> str:
    now = versions.get(before.tool, before.tool_version)
    return "" if before.tool_version == now else changed(before.tool, before.tool_version, now)


def changed(what: str, before: str | None, now: str | None) -> str:
    """Return that something has another value now."""
    return f"{what} {before or 'unknown'}, now {now or 'unknown'}"
