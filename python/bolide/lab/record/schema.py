"""The schema of a race's results: the record of each line of `results.jsonl`.

An unknown value is null, never 0 or the value of another field. `journal.py` reads and writes the
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

SCHEMA = 1
CORE_PART = "Bolide's core library"
"""Its name among the hashes of `Machine.parts`."""
FILE_BYTE = b"x"
"""What the content of `Workload.file_bytes` consists of."""

NAME = r"^[\w.+{}-]+\Z"
Name: TypeAlias = Annotated[str, Meta(pattern=NAME, max_length=100)]
"""Of a study, workload or contestant. Names become names of files, so there is no `/` in one."""
Amount: TypeAlias = Annotated[int, Meta(ge=0)]
Number: TypeAlias = Annotated[int, Meta(ge=1)]
"""Figures are divided by it, so it is not 0."""
Quantity: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)]
PublishedFigure: TypeAlias = Annotated[float, Meta(gt=0, le=1e15)]
"""Ratios to it are shown, so it is not 0."""
State: TypeAlias = Literal["ready", "needs set-up", "cannot run here"]
Loop: TypeAlias = Literal["", "asyncio", "uvloop"]
HttpVersion: TypeAlias = Literal["1.0", "1.1", "2"]
Handshakes: TypeAlias = Literal["", "resumed", "full"]
"""TLS of a load: none; new connections resume earlier sessions; every handshake is a full one."""
Messages: TypeAlias = Literal["", "echo", "one-way", "broadcast"]
"""The patterns of `bolide load ws://`."""
Verdict: TypeAlias = Literal[
    "server-bound", "generator-bound", "neither", "errors", "noisy", "failed"
]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of a fleet, and its machine. It has the race's own version of Bolide."""

    name: str
    host: str
    """The name of its machine."""
    cpu_model: str | None = None
    cpus: int | None = None
    """Processors that it may use."""
    memory_bytes: int | None = None
    kernel: str | None = None
    python: str | None = None
    is_release_build: bool | None = None

    @property
    def machine(self) -> tuple[object, ...]:
        """What does not change if it is started again."""
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "name")


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What generates the load of a race instead of its own machine."""

    where: str
    """`local:N`, whose agents run on the load's processors; or the address of a scheduler."""
    server_address: str
    """The address of the race's machine that the agents load."""
    agents: tuple[Agent, ...]

    @property
    def is_local(self) -> bool:
        """Whether its agents run on the race's machine, started for each load."""
        return self.where.startswith("local:")


class Machine(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="machine"):
    """The machine that the race was run on, and when it started (ISO 8601, UTC)."""

    schema: int = SCHEMA
    kernel: str | None
    cpu_model: str | None
    cpus: int | None
    memory_bytes: int | None
    python: str
    sysctls: dict[str, str]
    limits: dict[str, int]
    virtualisation: str | None
    started_at: str
    bolide_version: str | None
    distribution: str | None = None
    """As /etc/os-release names it."""
    server_cpus: tuple[int, ...] | None = None
    """Processors of the servers; None if not recorded."""
    load_cpus: tuple[int, ...] | None = None
    seed: int | None = None
    """Seed of the order of the trials."""
    parts: dict[str, str] | None = None
    """Hashes of what all contestants share, by name; None if not recorded."""
    fleet: Fleet | None = None
    """None if the load is generated on the same machine."""
    shared_cores: tuple[tuple[int, ...], ...] | None = None
    """The processors of each core that has several (SMT); None if not known."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load by one tool; its name is unique in the study."""

    name: Name
    tool: str
    connections: Number
    pipeline_depth: Number = 1
    streams: Number = 1
    """Concurrent streams on each connection of HTTP/2."""
    is_persistent: bool = True
    http_version: HttpVersion = "1.1"
    tls: Handshakes = ""
    target: str = "/"
    threads: int = 1
    requests_total: int | None = None
    duration_s: float | None = None
    rate_per_s: float | None = None
    timeout_s: float = 5.0
    content: str | None = None
    """The expected content of each response; None means that of the first one."""
    contestants: tuple[str, ...] = ()
    """Contestants that run it; empty means all of the study."""
    is_quick: bool = False
    """Part of a quick race too."""
    rounds: int | None = None
    """Rounds of this workload, if fewer than the study's."""
    processors: int | None = None
    """Processors of the server, if the race has that many; None means all of the race's."""
    sysctls: tuple[tuple[str, str], ...] = ()
    """Settings of a network namespace of its own; without any, the machine's network is used."""
    maximum: str = ""
    """The workload whose rates are the maxima of an open loop; "" if this is not part of one."""
    rate_of: Literal["", "own", "common"] = ""
    """Whether the maximum is the contestant's own, or the lowest of all contestants."""
    rate_share: float | None = None
    """The share of the maximum that is offered; `rate_per_s` is derived from it in each race."""
    finds: str = ""
    """Condition of a search for the highest rate, such as "p99 < 10ms"."""
    fields: tuple[tuple[str, str], ...] = ()
    """Further field lines of each request."""
    content_bytes: int | None = None
    """Size of the content of each request, which makes it a POST; None for a GET."""
    messages: Messages = ""
    """WebSocket: what the server does with each message; "" for HTTP."""
    message_bytes: int | None = None
    """Size of a message with a number in it; None means that the message is the content."""
    is_compressed: bool = False
    """WebSocket with permessage-deflate."""
    file_bytes: int | None = None
    """Size of a file, which each response has instead of `content`; None without one."""
    app: str = ""
    """module:attribute in apps/ that is served instead of the contestants' own; "" for theirs."""
    is_timed: bool = False
    """The application's processor time is measured inside the server (apps/bench/timed.py)."""
    companion: str = ""
    """A server in apps/ that the application uses, on the load's processors; "" for none."""
    group: str = ""
    """Workloads of a group are loaded in turns together; "" is a group of its own."""

    @property
    def scheme(self) -> str:
        """The scheme of its URL."""
        return ("ws" if self.messages else "http") + ("s" if self.tls else "")

    @property
    def expected_content(self) -> bytes | None:
        """The content of each response; None means that of the first one."""
        if self.file_bytes is not None:
            return FILE_BYTE * self.file_bytes
        return None if self.content is None else self.content.encode()


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A figure published in the study's document, with a note on how it was measured."""

    contestant: Name
    workload: Name
    requests_per_s: PublishedFigure | None = None
    latency_ms: PublishedFigure | None = None
    note: str = ""
    does_not_hold: str = ""
    """Why the figure is invalid; "" if it is valid."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a study's document says about its servers, in a form that a race can judge.

    All `contestants` have to be within the bounds. With `than`, the bounds are those of the ratio
    to each of these; with `than_workloads`, of the ratio to another workload.
    """

    text: str
    workloads: tuple[str, ...]
    """The document's workload, then similar ones: the first with all figures counts."""
    contestants: tuple[str, ...]
    than: tuple[str, ...] = ()
    than_workloads: tuple[str, ...] = ()
    """The other workload for each of `workloads`; empty means the same."""
    figure: Literal["rate", "errors"] = "rate"
    """Correct responses per second, or the share of requests that failed."""
    at_least: Quantity | None = None
    at_most: Quantity | None = None


Measure: TypeAlias = Literal["rate", "cpu", "bytes", "own time", "memory at start", "memory each"]
"""What a requirement is about: requests per second; the same per second of the server's processor
time; bytes per second, where few responses are complete in a turn; the server's processor time per
request without the application's; the resident memory of the server's largest process before a
load; by how much the server's grows with each connection."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """What a contestant must reach at a workload, absolutely or as a ratio to another one."""

    title: str
    contestant: str
    workload: str
    measure: Measure = "rate"
    against: str = ""
    """The other contestant of the ratio; "" if the value itself is judged, in bytes."""
    at_least: float | None = None
    at_most: float | None = None
    """Without either, the ratio is only shown."""


class Study(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="study"):
    """What is measured, and how."""

    schema: int = SCHEMA
    name: Name
    title: str
    document: str
    rounds: int
    duration_s: float | None
    workloads: tuple[Workload, ...]
    published: tuple[Published, ...]
    claims: tuple[Claim, ...] = ()
    picture: str = ""
    """The workload whose rates the report begins with; "" means the one with the most results."""
    turn_s: float | None = None
    """Servers of a group run at the same time, and are loaded in turns of this time."""
    requirements: tuple[Requirement, ...] = ()
    remarks: tuple[str, ...] = ()
    """What of its loads a fleet does not generate, or with another tool, and why."""

    @property
    def turns(self) -> int:
        """How often a server is loaded after each start: once if it is not loaded in turns."""
        if not self.turn_s:
            return 1
        return max(1, round((self.duration_s or 0.0) / self.turn_s))


def demand_of(workload: Workload) -> tuple[object, ...]:
    """Return what a workload demands of a server, regardless of tool and duration."""
    return (
        workload.connections,
        workload.pipeline_depth,
        workload.streams,
        workload.is_persistent,
        workload.http_version,
        workload.tls,
        workload.target,
        workload.rate_per_s,
        workload.content,
        workload.processors,
        workload.sysctls,
        workload.rate_of,
        workload.rate_share,
        workload.finds,
        workload.fields,
        workload.content_bytes,
        workload.messages,
        workload.message_bytes,
        workload.is_compressed,
        workload.file_bytes,
        workload.app,
        workload.is_timed,
    )


def with_workloads(study: Study, workloads: Iterable[Workload]) -> Study:
    """Return a study with these workloads only, and the figures that were published for them.

    A figure of another workload is left out: another tool or load does not measure the same.
    """
    kept = tuple(workloads)
    names = {each.name for each in kept}
    return msgspec.structs.replace(
        study,
        workloads=kept,
        published=tuple(each for each in study.published if each.workload in names),
        requirements=tuple(each for each in study.requirements if each.workload in names),
    )


class Contestant(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="contestant"):
    """A server with an application; `role` distinguishes the baseline from servers."""

    schema: int = SCHEMA
    name: Name
    title: str
    role: Literal["server", "ceiling"]
    interface: str
    version: str | None
    language: str
    settings: str
    state: State
    reason: str
    remarks: tuple[str, ...] = ()
    copy_of: str = ""
    """The contestant that this one is a copy of (`--aa`), "" if none."""
    program: str = ""
    """What runs on different event loops: contestants of one program differ only in the loop."""
    loop: Loop = ""
    """The event loop, if `program` is given."""
    parts: dict[str, str] | None = None
    """Hashes of what it runs besides its command, by name; None if not recorded."""

    @property
    def is_bolide(self) -> bool:
        """Whether the server is Bolide, which the report emphasizes."""
        return self.role == "server" and self.name.startswith("bolide-")


class Failure(msgspec.Struct, frozen=True):
    """Why a trial has no figures."""

    class_: str = msgspec.field(name="class")
    message: str


class ServerUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's whole process tree used during the measured time."""

    cpu_s: float | None = None
    cpu_share: float | None = None
    """Share of one processor: 2.0 means two whole processors."""
    thread_share: float | None = None
    """That of its busiest thread; None if not recorded."""
    rss_bytes_start: int | None = None
    """Resident memory before the load."""
    rss_bytes_process: int | None = None
    """That of its largest process."""
    rss_bytes_max: int | None = None
    pss_bytes_max: int | None = None
    context_switches: int | None = None
    processes: int | None = None


class GeneratorUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the load generator used; the share is that of its busiest thread.

    `bolide load` reports it, without the polling before a request is due. Of a fleet, it is the
    busiest thread of all agents, and the processors are those that all agents used.
    """

    cpu_s: float | None = None
    cpu_share: float | None = None
    processors: float | None = None
    """Share of one processor that all of its threads and processes used: 2.0 is two of them."""
    rss_bytes_max: int | None = None
    context_switches: int | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Correct responses on each connection, as counted by the load generator."""

    connections: int
    """Connections with at least one."""
    starved: int
    """Connections with a request and without any."""
    min: int
    median: int
    max: int
    fairness: float | None = None
    """Jain's index: 1 if all had equally many, 0.05 if 5 of 100 had all."""


class AgentUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent of a fleet did in a trial; None if it is unknown, as of a lost one."""

    machine: Agent
    threads: int | None = None
    connections: int | None = None
    """Those that it had to open."""
    requests_per_s: float | None = None
    ok: int | None = None
    failed: int | None = None
    cpu_share: float | None = None
    """Share of the time in which its busiest thread worked."""
    waited_share: float | None = None
    """Share of the time in which one of its threads waited for a processor."""
    start_late_us: float | None = None
    """How long after the common start its load started."""
    clock_uncertainty_us: float | None = None
    lost: str | None = None
    """Why it was lost; None if it was not."""


class FleetUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the agents of a fleet did in a trial."""

    agents: tuple[AgentUse, ...]
    start_skew_us: float | None = None
    """Time between the first and the last start."""
    start_skew_uncertainty_us: float | None = None
    invalid: tuple[str, ...] = ()
    """Why `bolide load` does not call the result valid."""


class KernelDelta(msgspec.Struct, frozen=True, kw_only=True):
    """By how much the kernel's counters increased, for the whole network namespace."""

    listen_overflows: int | None = None
    listen_drops: int | None = None
    retransmits: int | None = None
    syncookies: int | None = None
    steal_share: float | None = None
    """Share of the time of the processors that the race used."""
    time_wait: int | None = None
    """Connections in TIME_WAIT; each one of this load occupies a port of the generator."""
    waited_share: dict[str, float] | None = None
    """Share of the time in which some task waited for "cpu", "memory" or "io" (PSI)."""
    server_irq_share: float | None = None
    """Share of one processor for which the server's processors handled interrupts; None if the
    kernel counts that as the time of processes."""
    load_irq_share: float | None = None
    """The same of the load's processors."""


class Trial(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="trial"):
    """One timed run of one workload on one contestant."""

    schema: int = SCHEMA
    study: Name
    workload: Name
    contestant: Name
    round: int
    """In a study with turns, the number of the turn in the whole race, from 1."""
    tool: str
    tool_version: str | None
    command: list[str]
    started_at: str
    seconds: Quantity | None = None
    is_valid: bool
    failure: Failure | None = None
    ok: Amount | None = None
    failed: Amount | None = None
    errors: dict[str, Amount] = {}
    requests_per_s: Quantity | None = None
    offered_per_s: Quantity | None = None
    """Open loop: requests due per second; of a search, the rate at which it started."""
    latency_us: dict[str, Quantity | None] | None = None
    histogram: list[tuple[Quantity, Amount]] | None = None
    """Rows of (latency in microseconds, count): `stats/histogram.py`."""
    requests_sent: int | None = None
    """Requests from the tool's start to its end, with those of its warm-up; None if unknown."""
    run_bytes: int | None = None
    """Bytes of responses from the tool's start to its end; None if unknown."""
    application_us: float | None = None
    """Processor time of the application per request, if it was measured inside the server."""
    own_us: float | None = None
    """Processor time of the server per request, without the application's."""
    bytes_per_s: Quantity | None = None
    served: Served | None = None
    """None if the tool does not count per connection."""
    in_flight: Quantity | None = None
    """Rate times mean latency; None if unknown, or if it says nothing about connections."""
    energy_j: float | None = None
    """Energy of all processor packages from the tool's start to its end; None if unknown."""
    companion_cpu_s: float | None = None
    """Processor time of the server that the application uses; None without one."""
    server: ServerUse = ServerUse()
    generator: GeneratorUse = GeneratorUse()
    kernel: KernelDelta = KernelDelta()
    fleet: FleetUse | None = None
    """What each agent did; None if the load was generated on the same machine."""
    verdict: Verdict
    evidence: list[str] = []

    @property
    def is_disturbed(self) -> bool:
        """Whether neither the server nor its load made it what it is, so that it is repeated.

        It is noisy, or the load of a fleet was not valid though no agent was lost.
        """
        agents = self.fleet.agents if self.failure is not None and self.fleet else ()
        return self.verdict == "noisy" or (bool(agents) and not any(each.lost for each in agents))


Record: TypeAlias = Machine | Study | Contestant | Trial
"""Any line."""
