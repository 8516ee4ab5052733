"""The studies: which contestants meet which workloads, and what a document published of them.

Each file in `studies/` is one study; a user's own is named by its path. A workload that names
several tools becomes one workload for each, called NAME-TOOL.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from bolide.errors import ConfigError
from bolide.lab.results import Published, Study, Workload

FOLDER = Path(__file__).parent / "studies"
ROUNDS = 3
DURATION_S = 5.0


class WorkloadTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A [[workload]] of a file: fields as in `results.Workload`; lists make several of it."""

    name: str
    tools: tuple[str, ...]
    connections: int | tuple[int, ...]
    """Several levels make one workload each; {connections} stands in the name."""
    pipeline_depth: int = 1
    is_persistent: bool = True
    http_version: str = "1.1"
    target: str = "/"
    threads: int | Literal["cores"] = 1
    """Of the tool; "cores": one for each processor that the load has."""
    requests_total: int | None = None
    duration_s: float | None = None
    rate_per_s: float | None = None
    timeout_s: float = 5.0
    contestants: tuple[str, ...] = ()
    quick: tuple[int, ...] | None = None
    """The levels that a quick race has; where nothing is said, the first one."""


class StudyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file in `studies/` holds."""

    title: str
    document: str
    content: str = "Hello, World!"
    content_repeated: int = 1
    """How often the content stands in an answer."""
    rounds: int = ROUNDS
    duration_s: float = DURATION_S
    contestants: tuple[str, ...]
    workload: tuple[WorkloadTable, ...]
    published: tuple[Published, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A study and who takes part in it."""

    study: Study
    contestants: tuple[str, ...]
    content: str


def names() -> list[str]:
    """Name the studies that come with Bolide."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str, load_cores: int = 1) -> Plan:
    """Read a study by name, or a user's own by path, for a load on so many processors.

    Raises:
        ConfigError: there is none, or its file is wrong.
    """
    path = FOLDER / f"{name}.toml"
    if "/" in name or name.endswith(".toml"):
        path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"no study {name!r}; there are {', '.join(names())}, or give a file's path"
        )
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=StudyFile)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"{path.name}: {error}") from None
    content = found.content * found.content_repeated
    workloads = tuple(
        each for table in found.workload for each in _expanded(table, found, content, load_cores)
    )
    known = {each.name for each in workloads}
    if len(known) < len(workloads):
        raise ConfigError(f"{path.name}: two workloads have one name")
    for figure in found.published:
        if figure.workload not in known:
            raise ConfigError(
                f"{path.name}: a published figure of no workload, {figure.workload!r}"
            )
    study = Study(
        name=path.stem,
        title=found.title,
        document=found.document,
        rounds=found.rounds,
        duration_s=found.duration_s,
        workloads=workloads,
        published=found.published,
    )
    return Plan(study=study, contestants=found.contestants, content=content)


def _expanded(
    table: WorkloadTable, file: StudyFile, content: str, load_cores: int
) -> list[Workload]:
    levels = (table.connections,) if isinstance(table.connections, int) else table.connections
    quick = levels[:1] if table.quick is None else table.quick
    fields: dict[str, Any] = {
        name: getattr(table, name)
        for name in table.__struct_fields__
        if name not in ("name", "tools", "connections", "quick", "duration_s", "threads")
    }
    duration_s = table.duration_s or file.duration_s
    found = []
    for level in levels:
        for tool in table.tools:
            found.append(
                Workload(
                    **fields,
                    name=f"{table.name.replace('{connections}', str(level))}-{tool}",
                    tool=tool,
                    connections=level,
                    threads=load_cores if table.threads == "cores" else table.threads,
                    duration_s=None if table.requests_total else duration_s,
                    content=content,
                    is_quick=level in quick,
                )
            )
    return found


def shortened(study: Study, is_installed: Callable[[str], bool]) -> Study:
    """Give a study for a quick race: one round, a second each, fewer workloads, by one tool each.

    That is the first tool of the workload which is installed.
    """
    kept: dict[str, Workload] = {}
    for each in study.workloads:
        if each.is_quick and is_installed(each.tool):
            kept.setdefault(each.name.removesuffix(f"-{each.tool}"), each)
    workloads = tuple(
        msgspec.structs.replace(
            each,
            duration_s=1.0 if each.duration_s else None,
            requests_total=min(each.requests_total, 5000) if each.requests_total else None,
        )
        for each in kept.values()
    )
    return msgspec.structs.replace(study, rounds=1, duration_s=1.0, workloads=workloads)


def lengthened(study: Study, rounds: int | None, duration_s: float | None) -> Study:
    """Give a study with other rounds, or another time for each trial that has one."""
    if duration_s is not None:
        workloads = tuple(
            msgspec.structs.replace(each, duration_s=duration_s) if each.duration_s else each
            for each in study.workloads
        )
        study = msgspec.structs.replace(study, duration_s=duration_s, workloads=workloads)
    return msgspec.structs.replace(study, rounds=rounds or study.rounds)


def of_application(name: str, target: str) -> Study:
    """Make the study of a user's own application: what it answers first is what is right."""
    levels = ((100, 1), (10, 1), (1000, 1))
    workloads = tuple(
        Workload(
            name=f"c{connections}-bolide",
            tool="bolide",
            connections=connections,
            pipeline_depth=depth,
            target=target,
            duration_s=DURATION_S,
            is_quick=connections == 100,
        )
        for connections, depth in levels
    )
    return Study(
        name=name,
        title=f"{name} on every server that runs it",
        document="",
        rounds=ROUNDS,
        duration_s=DURATION_S,
        workloads=workloads,
        published=(),
    )
