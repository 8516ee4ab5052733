"""The studies: which contestants run which workloads, and the figures that documents published.

Each file in `studies/` is one study; a user's own is given by its path. A workload with several
tools becomes one workload for each, called NAME-TOOL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from bolide.errors import ConfigError
from bolide.lab.folders import STUDIES
from bolide.lab.matching import fits
from bolide.lab.plan import mistakes, open_loop, requirement, shipped
from bolide.lab.plan.mistakes import WrongStudyError
from bolide.lab.plan.open_loop import OpenLoop
from bolide.lab.plan.requirement import Row, Turns
from bolide.lab.record.schema import (
    NAME,
    Claim,
    Handshakes,
    HttpVersion,
    Messages,
    Published,
    Study,
    Workload,
    with_workloads,
)
from bolide.lab.tools import TOOLS, Load, ToolError, find
from bolide.lab.visible import shown, visible

ROUNDS = 7
"""The fewest rounds with an interval, and one that may be lost."""
QUICK_S = 1.0
QUICK_MANY_S = 3.0
MANY_CONNECTIONS = 5000
"""That many connections take most of a second to open."""
DURATION_S = 5.0
ROUNDS_MAX = 1000
NAME_LETTERS_MAX = 100
TABLE_NAME_LETTERS_MAX = 80
"""The names of a table's workloads end with a tool."""
SECONDS_MIN = 0.001
"""A shorter time is that in which a tool starts, and no response of a server arrives in it."""
SECONDS_MAX = 86_400
"""A day."""
REQUESTS_MAX = 1_000_000_000
"""A day at more than ten thousand requests per second."""
THREADS_MAX = 1024
"""More than a load has processors."""
CONTENT_BYTES_MAX = 100_000
"""The server gets the content in an environment variable, which the kernel limits to 128 KiB."""

FILE_BYTES_MAX = 1 << 28
"""Contents of that size are verified in memory."""

TARGET = r"^/[!-~]*\Z"
"""A path in the form of a request target, with its query."""

SYSCTL = r"^net\.[a-z0-9_.-]+\Z"
"""A kernel setting that each network namespace has for itself."""

OWN_FIELDS = (
    "name",
    "tools",
    "connections",
    "quick",
    "duration_s",
    "threads",
    "sysctls",
    "content",
    "content_repeated",
    "fields",
    "rate_per_s",
)
"""Fields of a table that a workload has in another form."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds: TypeAlias = Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]


class WorkloadTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A [[workload]] of a file: fields as in `schema.Workload`; lists make several workloads."""

    name: Annotated[str, Meta(pattern=NAME, max_length=TABLE_NAME_LETTERS_MAX)]
    tools: Annotated[tuple[str, ...], Meta(min_length=1)]
    connections: Count | Annotated[tuple[Count, ...], Meta(min_length=1)]
    """Each level makes one workload; the name contains {connections}."""
    pipeline_depth: Count = 1
    streams: Count = 1
    """Concurrent streams on each connection of HTTP/2."""
    is_persistent: bool = True
    http_version: HttpVersion = "1.1"
    tls: Handshakes = ""
    """Server and load use TLS, where new connections resume a session, or never do."""
    target: Annotated[str, Meta(pattern=TARGET)] = "/"
    threads: Annotated[int, Meta(ge=1, le=THREADS_MAX)] | Literal["cores"] = 1
    """Threads of the tool; "cores" means one for each processor of the load."""
    requests_total: Annotated[int, Meta(ge=1, le=REQUESTS_MAX)] | None = None
    duration_s: Seconds | None = None
    rate_per_s: Annotated[float, Meta(ge=1, le=1e9)] | None = None
    """Rounded to a whole number, which every tool reads."""
    timeout_s: Seconds = 5.0
    contestants: tuple[str, ...] = ()
    quick: tuple[int, ...] | None = None
    """The levels of a quick race; by default the first one."""
    rounds: Annotated[int, Meta(ge=1, le=ROUNDS_MAX)] | None = None
    """Rounds of this workload, if fewer than the study's."""
    processors: Count | None = None
    """Processors of the server, if the race has that many; by default all of the race's."""
    sysctls: Mapping[Annotated[str, Meta(pattern=SYSCTL)], str] = {}
    """Settings of a network namespace of its own, in which server and tool run."""
    content: str | None = None
    """What every contestant has to respond here; by default the study's."""
    content_repeated: Count = 1
    fields: Mapping[str, str] = {}
    """Further field lines of each request."""
    content_bytes: Annotated[int, Meta(ge=0, le=1 << 24)] | None = None
    messages: Messages = ""
    """WebSocket: what the server does with messages; `pipeline_depth` of them are in one send."""
    message_bytes: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None
    """Size of a message with a number in it; None means that the message is the content."""
    is_compressed: bool = False
    file_bytes: Annotated[int, Meta(ge=1, le=FILE_BYTES_MAX)] | None = None
    """Size of a file, which every contestant has to respond with here."""
    app: str = ""
    is_timed: bool = False
    companion: str = ""
    group: str = ""


class StudyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a file in `studies/`."""

    title: str
    document: str = ""
    content: str = "Hello, World!"
    content_repeated: Count = 1
    """How often the content is repeated in a response."""
    rounds: Annotated[int, Meta(ge=1, le=ROUNDS_MAX)] = ROUNDS
    duration_s: Seconds = DURATION_S
    contestants: Annotated[tuple[str, ...], Meta(min_length=1)]
    workload: Annotated[tuple[WorkloadTable, ...], Meta(min_length=1)]
    open_loop: OpenLoop | None = None
    turns: Turns | None = None
    row: tuple[Row, ...] = ()
    published: tuple[Published, ...] = ()
    claim: tuple[Claim, ...] = ()
    picture: str = ""
    """The workload whose rates are the study's question: the report begins with them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A study and the names of its contestants."""

    study: Study
    contestants: tuple[str, ...]
    content: str


def names() -> list[str]:
    """Return the names of the studies that come with Bolide."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def load(name: str, load_cores: int = 1) -> Plan:
    """Read a study by name or path, for a load generator with `load_cores` processors.

    Raises:
        ConfigError: it does not exist, or its file is invalid.
    """
    path = STUDIES / f"{name}.toml"
    if "/" in name or name.endswith(".toml"):
        path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"no study {name!r}; there are {', '.join(names())}, or give the path of a file"
        )
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=StudyFile)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"{path.name}: {visible(str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{path.name}: its arrays or tables are nested too deeply") from None
    try:
        return _plan(_name_of(path.stem), found, load_cores)
    except WrongStudyError as error:
        raise ConfigError(f"{path.name}: {visible(str(error))}") from None


def _name_of(text: str) -> str:
    """Return a file's or an application's name as that of its study, without other characters."""
    return re.sub(r"[^\w.+{}-]+", "-", text)[-NAME_LETTERS_MAX:]


def _plan(name: str, found: StudyFile, load_cores: int) -> Plan:
    content = _content(found.content, found.content_repeated)
    workloads = tuple(
        each for table in found.workload for each in _expanded(table, found, content, load_cores)
    )
    workloads += tuple(_open_loop(found, workloads))
    known = {each.name for each in workloads}
    if len(known) < len(workloads):
        raise WrongStudyError("two workloads have the same name")
    if found.picture and found.picture not in known:
        raise WrongStudyError(f"picture refers to no workload: {found.picture!r}")
    references = [mistakes.of_published(each, known, found.contestants) for each in found.published]
    references += [mistakes.of_claim(each, known, found.contestants) for each in found.claim]
    if reason := next(filter(None, references), ""):
        raise WrongStudyError(reason)
    study = Study(
        name=name,
        title=found.title,
        document=found.document,
        rounds=found.rounds,
        duration_s=found.duration_s,
        workloads=workloads,
        published=found.published,
        claims=found.claim,
        picture=found.picture,
        turn_s=None if found.turns is None else found.turns.seconds,
        requirements=requirement.of_rows(found.row),
    )
    _check_rows(found, workloads)
    return Plan(study=shown(study), contestants=found.contestants, content=content)


def _check_rows(file: StudyFile, workloads: Sequence[Workload]) -> None:
    """Refuse a row that cannot be judged, and turns that cannot be taken.

    Raises:
        WrongStudyError: there is one.
    """
    runners = {each.name: frozenset(each.contestants or file.contestants) for each in workloads}
    for row in file.row:
        if reason := requirement.refusal(row, runners):
            raise WrongStudyError(f"row {row.title!r}: {reason}")
    if file.turns is not None and (file.open_loop or any(each.sysctls for each in workloads)):
        raise WrongStudyError("turns have neither an open loop nor a network of their own")


def _open_loop(file: StudyFile, workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads of the file's open-loop part.

    Raises:
        WrongStudyError: the workload with the maxima is not suitable.
    """
    table = file.open_loop
    if table is None:
        return []
    base = next((each for each in workloads if each.name == table.of), None)
    if base is None:
        raise WrongStudyError(f"open_loop refers to no workload: {table.of!r}")
    if base.tool != open_loop.TOOL or base.pipeline_depth > 1 or base.rate_per_s is not None:
        raise WrongStudyError(
            f"open_loop needs a closed loop of single requests by {open_loop.TOOL}: {table.of!r}"
        )
    if table.find and (reason := mistakes.of_condition(table.find)):
        raise WrongStudyError(f"open_loop: {reason}")
    for name in table.contestants:
        if not any(fits(name, wanted) for wanted in base.contestants or file.contestants):
            raise WrongStudyError(f"open_loop: {name!r} does not run {table.of!r}")
    return open_loop.workloads(table, base)


def _content(text: str, repeated: int) -> str:
    length = len(text.encode()) * repeated
    if length > CONTENT_BYTES_MAX:
        raise WrongStudyError(
            f"the content has {length:,} bytes, {CONTENT_BYTES_MAX:,} are allowed"
        )
    if "\0" in text:
        raise WrongStudyError(
            "the content has a zero byte, which an environment variable cannot have"
        )
    return text * repeated


def _check(table: WorkloadTable, file: StudyFile, levels: tuple[int, ...]) -> None:
    """Refuse fields that are valid alone but not in combination.

    Raises:
        WrongStudyError: part of the workload would never run.
    """
    for name in table.contestants:
        if not any(fits(name, wanted) for wanted in file.contestants):
            raise WrongStudyError(
                f"workload {table.name!r}: {name!r} is not a contestant of the study"
            )
    for level in table.quick or ():
        if level not in levels:
            raise WrongStudyError(
                f"workload {table.name!r}: quick has {level}, which connections does not have"
            )
    if reason := _contradiction(table):
        raise WrongStudyError(f"workload {table.name!r}: {reason}")


def _contradiction(table: WorkloadTable) -> str:
    """Return why a workload's fields do not fit each other; "" if they do."""
    if reason := mistakes.of_fields(table.fields):
        return reason
    if table.streams > 1 and table.http_version != "2":
        return 'streams are for http_version = "2"'
    if table.http_version == "2" and (table.pipeline_depth > 1 or not table.is_persistent):
        return "HTTP/2 has streams, and connections that stay open"
    if table.tls == "full" and table.is_persistent:
        return "full handshakes are for a connection per request"
    if table.is_timed and (table.tls or table.http_version == "2"):
        return "a timed application is asked over HTTP/1.1 without TLS"
    if not table.messages and (table.message_bytes is not None or table.is_compressed):
        return "message_bytes and is_compressed are for messages"
    if table.messages and (table.http_version != "1.1" or table.content_bytes is not None):
        return 'messages are for http_version = "1.1", and are the content themselves'
    if table.http_version == "2" and (table.content_bytes is not None or table.fields):
        return "HTTP/2 has neither content of requests nor further fields here"
    return ""


def load_of(workload: Workload, url: str, content: bytes) -> Load:
    """Return a workload as a load for the tools."""
    return Load(
        url=url,
        connections=workload.connections,
        pipeline_depth=workload.pipeline_depth,
        streams=workload.streams,
        tls=workload.tls,
        http_version=workload.http_version,
        is_persistent=workload.is_persistent,
        threads=workload.threads,
        duration_s=workload.duration_s,
        requests_total=workload.requests_total,
        timeout_s=workload.timeout_s,
        rate_per_s=workload.rate_per_s,
        finds=workload.finds,
        fields=workload.fields,
        messages=workload.messages,
        message_bytes=workload.message_bytes,
        is_compressed=workload.is_compressed,
        content_file="content" if workload.content_bytes is not None else "",
        is_sleepless=workload.is_timed,
        expected_content=content,
    )


def _expanded(
    table: WorkloadTable, file: StudyFile, content: str, load_cores: int
) -> list[Workload]:
    levels = (table.connections,) if isinstance(table.connections, int) else table.connections
    _check(table, file, levels)
    quick = levels[:1] if table.quick is None else table.quick
    fields: dict[str, Any] = {
        name: getattr(table, name) for name in table.__struct_fields__ if name not in OWN_FIELDS
    }
    if table.content is not None:
        content = _content(table.content, table.content_repeated)
    turn_s = None if file.turns is None else file.turns.seconds
    duration_s = table.duration_s or turn_s or file.duration_s
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
                    rate_per_s=table.rate_per_s and float(round(table.rate_per_s)),
                    content=content,
                    is_quick=level in quick,
                    sysctls=tuple(sorted(table.sysctls.items())),
                    fields=tuple(table.fields.items()),
                )
            )
    for each in found:
        if reason := _refusal(each):
            raise WrongStudyError(f"workload {each.name!r}: {reason}")
    return found


def _refusal(workload: Workload) -> str:
    """Return why a race cannot run it: its programs, or its tool; "" if it can."""
    if reason := shipped.refusal(workload):
        return reason
    try:
        content = (workload.content or "").encode()
        scheme = workload.scheme
        find(workload.tool).command(load_of(workload, f"{scheme}://127.0.0.1:1/", content))
    except ToolError as error:
        return str(error)
    return ""


def _quick_s(workload: Workload) -> float:
    return QUICK_MANY_S if workload.connections >= MANY_CONNECTIONS else QUICK_S


def _loads(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """Return the first workload of each load, by its name without the tool."""
    found: dict[str, Workload] = {}
    for each in workloads:
        found.setdefault(each.name.removesuffix(f"-{each.tool}"), each)
    return found


def shortened(study: Study, is_installed: Callable[[str], bool] | None) -> Study:
    """Return a study for a quick race: one round, trials of one or three seconds, fewer workloads.

    Each workload uses the first of its tools that is installed; all of them if `is_installed` is
    None.
    """
    quick = [each for each in study.workloads if each.is_quick]
    if is_installed is not None:
        quick = list(_loads(each for each in quick if is_installed(each.tool)).values())
    workloads = tuple(
        each
        if study.turn_s
        else msgspec.structs.replace(
            each,
            duration_s=_quick_s(each) if each.duration_s else None,
            requests_total=min(each.requests_total, 5000) if each.requests_total else None,
        )
        for each in quick
    )
    return msgspec.structs.replace(with_workloads(study, workloads), rounds=1, duration_s=1.0)


def lengthened(study: Study, rounds: int | None, duration_s: float | None) -> Study:
    """Return a study with another number of rounds, or another duration of its trials.

    Raises:
        ConfigError: the duration is invalid.
    """
    if duration_s is not None:
        if not SECONDS_MIN <= duration_s <= SECONDS_MAX:
            raise ConfigError(
                f"--duration {duration_s:g} is not at least {SECONDS_MIN} s"
                f" and at most {SECONDS_MAX:,} s"
            )
        workloads = tuple(
            msgspec.structs.replace(each, duration_s=duration_s)
            if each.duration_s and not each.finds and not study.turn_s
            else each
            for each in study.workloads
        )
        study = msgspec.structs.replace(study, duration_s=duration_s, workloads=workloads)
    return msgspec.structs.replace(study, rounds=rounds or study.rounds)


def by_tools(
    study: Study, tools: Sequence[str], wanted: Sequence[str] = ("*",)
) -> tuple[Study, list[str]]:
    """Return a study with its loads by these tools, and why some wanted loads are left out.

    Raises:
        ConfigError: they can generate none of them, or a tool does not exist.
    """
    for tool in tools:
        if tool not in TOOLS:
            raise ConfigError(f"no tool is called {tool!r}; there are {', '.join(TOOLS)}")
    own = {each.name: each for each in study.workloads}
    workloads, refused = [], []
    for stem, load in _loads(each for each in study.workloads if not each.maximum).items():
        for tool in dict.fromkeys(tools):
            name = f"{stem}-{tool}"
            found = own.get(name) or msgspec.structs.replace(load, name=name, tool=tool)
            if not (reason := _refusal(found)):
                workloads.append(found)
            elif any(fits(name, text) for text in wanted):
                refused.append(f"{name} is left out: {reason}")
    part = [each for each in study.workloads if each.maximum]
    if part and open_loop.TOOL not in tools:
        if any(fits(part[0].name, text) for text in wanted):
            refused.append(f"the open loop is left out: it needs {open_loop.TOOL}")
        part = []
    if refused and not any(fits(each.name, text) for each in workloads for text in wanted):
        raise ConfigError(f"no workload can be measured; {'; '.join(refused)}")
    return with_workloads(study, [*workloads, *part]), refused


def of_application(app: str, target: str) -> Study:
    """Return the study of a user's application, whose first response is the expected one.

    Raises:
        ConfigError: the target is not valid in a request.
    """
    if not re.fullmatch(TARGET, target):
        raise ConfigError(f"--target {target!r} is not a path as in a request, such as /a?b=1")
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
        name=_name_of(app.partition(":")[0]),
        title=f"{app} on every server that runs it",
        document="",
        rounds=ROUNDS,
        duration_s=DURATION_S,
        workloads=workloads,
        published=(),
    )
