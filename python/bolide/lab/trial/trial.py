"""One trial: a contestant is started, verified, warmed up, loaded and ended."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from bolide import temporary
from bolide.lab.plan.fleet import LOOPBACK, Joined
from bolide.lab.plan.schedule import Slot
from bolide.lab.plan.study import load_of
from bolide.lab.plan.user_application import UserApplication
from bolide.lab.record import service
from bolide.lab.record.energy import Meter
from bolide.lab.record.machine import Counters, local_ports, now
from bolide.lab.record.redaction import TRIAL_PREFIX, redacted
from bolide.lab.record.schema import (
    Failure,
    FleetUse,
    GeneratorUse,
    KernelDelta,
    Served,
    ServerUse,
    Trial,
    Workload,
)
from bolide.lab.tools import Load, Reading, ToolError, find
from bolide.lab.tools.bolide import fits_argument
from bolide.lab.tools.fleet import InvalidLoadError
from bolide.lab.trial import timed
from bolide.lab.trial.launch import LARGE_FILE, Place, start, start_companion
from bolide.lab.trial.network import NetworkError, own
from bolide.lab.trial.process import NotReadyError, Process, free_port
from bolide.lab.trial.sampler import INTERVAL_S, ServerSampler, ThreadSampler
from bolide.lab.trial.secure import CERTIFICATE, Pair
from bolide.lab.trial.verdict import Observation, judge
from bolide.lab.trial.verify import CONTENT_BYTE, Proof, WrongResponseError, verify

WARM_UP_CONNECTIONS_MAX = 100
TOOL_SLACK_S = 30.0
FLEET_S = 120.0
"""How much longer a fleet may take: a minute for agents to join, and time for each to connect."""
TOTAL_S_MAX = 120.0
"""Time limit for a load with a fixed number of requests, besides REQUESTS_PER_S_MIN."""
FIND_S_MAX = 300.0
"""Time limit for a search for the highest rate."""
REQUESTS_PER_S_MIN = 2000
"""Rate at which a load with a great number of requests may take longer."""


class HangError(Exception):
    """A tool that did not end in time."""


class EscapedError(Exception):
    """A server that runs on other processors than its own."""


class DeadError(Exception):
    """A server that ended, or no longer responds, after its load."""


@dataclass(frozen=True)
class Conditions:
    """What is the same for all trials of a race."""

    study: str
    server_cpus: tuple[int, ...]
    load_cpus: tuple[int, ...]
    warm_up_s: float
    application: UserApplication | None = None
    turn_warm_up_s: float = 0.0
    """How long the tool itself warms up before it measures."""
    ready_s_max: float = 20.0
    slack_s: float = TOOL_SLACK_S
    pair: Pair | None = None
    """The certificate of the race; None if no workload uses TLS."""
    versions: dict[str, str | None] = field(default_factory=dict)
    """Versions of the tools."""
    fleet: Joined | None = None
    """What generates the load; None for the processors `load_cpus` of this machine."""

    @property
    def address(self) -> str:
        """Where the servers listen."""
        return self.fleet.described.server_address if self.fleet else LOOPBACK

    @property
    def loads_here(self) -> bool:
        """Whether the load is generated on `load_cpus`."""
        return self.fleet is None or self.fleet.fleet.is_local


@dataclass(frozen=True)
class _Used:
    """What was used from the tool's start to its end."""

    server: ServerUse
    generator: GeneratorUse
    kernel: KernelDelta
    companion: ServerUse
    """What the server that the application uses used; all unknown without one."""
    others_share: float
    energy_j: float | None


def run(slot: Slot, conditions: Conditions) -> Trial:
    """Run one trial; any problem of the server is recorded as a failure."""
    found = Run(slot, conditions)
    folder = conditions.application.folder if conditions.application else None
    try:
        trial = found.trial()
    except PROBLEMS as error:
        trial = found.failed(error)
    return redacted(trial, folder)


PROBLEMS = (
    NotReadyError,
    WrongResponseError,
    HangError,
    DeadError,
    EscapedError,
    ToolError,
    NetworkError,
    timed.NoTimeError,
)
"""What a trial fails by."""
CLASSES: dict[type[Exception], str] = {
    NotReadyError: "start",
    HangError: "hang",
    DeadError: "died",
    EscapedError: "affinity",
    InvalidLoadError: "fleet",
    ToolError: "tool",
    NetworkError: "network",
    timed.NoTimeError: "application_time",
}
"""Their classes in the results; that of a wrong response is its kind."""


def failed(
    slot: Slot,
    conditions: Conditions,
    failure: Failure,
    started_at: str | None = None,
    command: Sequence[str] = (),
    fleet: FleetUse | None = None,
) -> Trial:
    """Return the record of a trial without figures."""
    return Trial(
        **_head(slot, conditions, started_at or now(), [*command]),
        is_valid=False,
        failure=failure,
        fleet=fleet,
        verdict="failed",
        evidence=[failure.message],
    )


def _head(
    slot: Slot, conditions: Conditions, started_at: str, command: list[str]
) -> dict[str, Any]:
    tool = slot.workload.tool
    return {
        "study": conditions.study,
        "workload": slot.workload.name,
        "contestant": slot.contestant.name,
        "round": slot.round,
        "tool": tool,
        "tool_version": conditions.versions.get(tool),
        "command": [Path(word).name if word.startswith("/") else word for word in command],
        "started_at": started_at,
    }


class Run:
    """A contestant that is started for a workload, and loaded once or several times."""

    def __init__(self, slot: Slot, conditions: Conditions) -> None:
        self._slot = slot
        self._workload = _as_sent(slot.workload)
        self._entry = slot.contestant.entry
        self._conditions = conditions
        self._started_at = now()
        self._command: list[str] = []
        self._server_cpus = conditions.server_cpus[: slot.workload.processors]
        self._proof: Proof
        self._load: Load
        self._server: Process
        self._beside: Process | None = None
        self._folder: Path
        self._address: tuple[str, int]

    def trial(self) -> Trial:
        """Run the whole trial.

        Raises:
            PROBLEMS: it has no figure.
        """
        with self.running():
            found = self.measured()
            self.check_alive()
        return found

    def failed(self, error: Exception) -> Trial:
        """Return the record of this trial without figures."""
        kind = error.kind if isinstance(error, WrongResponseError) else CLASSES[type(error)]
        failure = Failure(kind, str(error))
        use = error.use if isinstance(error, InvalidLoadError) else None
        fleet = msgspec.convert(use, FleetUse) if use else None
        return failed(self._slot, self._conditions, failure, self._started_at, self._command, fleet)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the server, verified and warmed up, until the block ends.

        Raises:
            PROBLEMS: it does not start, or a response is wrong.
        """
        with (
            own(self._workload.sysctls),
            temporary.new(TRIAL_PREFIX) as self._folder,
        ):
            self._folder.chmod(0o755)  # a server that drops root privileges reads from it
            address = self._conditions.address
            self._address = (address, free_port(address))
            pair = self._conditions.pair if self._workload.tls else None
            place = Place(self._folder, self._address, self._server_cpus, pair)
            with (
                self._companion() as port,
                start(
                    self._slot.contestant,
                    self._workload,
                    place,
                    self._conditions.application,
                    port,
                ) as self._server,
            ):
                self._server.wait_ready(self._address, self._conditions.ready_s_max)
                self._proof = self._verified(self._workload)
                self._load = self._loaded()
                if self._conditions.warm_up_s and find(self._workload.tool).warms_up:
                    self._warm_up(self._load)
                yield

    @contextmanager
    def _companion(self) -> Iterator[int | None]:
        """Run the server that the application uses, if there is one, and return its port."""
        if not self._workload.companion:
            yield None
            return
        address = (LOOPBACK, free_port())
        place = Place(self._folder, address, self._conditions.load_cpus)
        with start_companion(self._workload, place) as companion:
            companion.wait_ready(address, self._conditions.ready_s_max)
            self._beside = companion
            yield address[1]

    def measured(self, number: int | None = None) -> Trial:
        """Load the running server once; `number` is another round than that of the slot.

        Raises:
            PROBLEMS: there is no figure.
        """
        self._started_at = now()
        found = self._timed() if self._workload.is_timed else self._measured()
        number = self._slot.round if number is None else number
        evidence = [*found.evidence, *self._proof.remarks]
        return msgspec.structs.replace(found, round=number, evidence=evidence)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the running server."""
        for pid in self._server.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def resident_bytes(self) -> int:
        """Return the resident memory of the running server's processes."""
        with ServerSampler(self._server.pids) as sampler:
            pass
        return sampler.use().rss_bytes_start or 0

    def _timed(self) -> Trial:
        """Load the server, and ask the application for its processor time before and after."""
        before = timed.ask(self._address)
        found = self._measured()
        counted = timed.ask(self._address).since(before)
        application_us, own_us = counted.shares(found.server.cpu_s or 0.0, found.ok or 0)
        return msgspec.structs.replace(found, application_us=application_us, own_us=own_us)

    def _verified(self, workload: Workload) -> Proof:
        is_users = self._conditions.application is not None
        pair = self._conditions.pair
        return verify(self._address, workload, self._entry, is_users=is_users, pair=pair)

    def _loaded(self) -> Load:
        """Return the workload as a load on this server."""
        target = self._entry.target or self._workload.target
        url = f"{self._workload.scheme}://{self._address[0]}:{self._address[1]}{target}"
        found = load_of(self._workload, url, self._proof.content)
        if self._workload.tls:
            found = replace(found, certificate=str(self._folder / CERTIFICATE))
        content = self._folder / "content"
        if self._workload.content_bytes is not None:
            content.write_bytes(CONTENT_BYTE * self._workload.content_bytes)
            found = replace(found, content_file=str(content))
        if self._workload.file_bytes is not None:
            found = replace(found, expected_file=str(self._folder / LARGE_FILE))
        elif found.expected_content is not None and not fits_argument(found.expected_content):
            expected = self._folder / "expected"
            expected.write_bytes(found.expected_content)
            found = replace(found, expected_file=str(expected))
        can_warm_up = "a warm-up" in find(self._workload.tool).can and not found.requests_total
        warm_up_s = self._conditions.turn_warm_up_s if can_warm_up else 0.0
        joined = self._conditions.fleet
        return replace(
            found,
            response_bytes=self._proof.response_bytes,
            warm_up_s=warm_up_s,
            fleet=joined.fleet if joined else None,
        )

    def _warm_up(self, load: Load) -> None:
        """Warm it up with `bolide load`, which ends in time even if the server hangs.

        It runs on this machine, also if a fleet generates the load.
        """
        short = Load(
            url=load.url,
            connections=min(load.connections, WARM_UP_CONNECTIONS_MAX),
            is_persistent=load.is_persistent,
            http_version=load.http_version,
            streams=load.streams,
            tls=load.tls,
            certificate=load.certificate,
            duration_s=self._conditions.warm_up_s,
            timeout_s=load.timeout_s,
            fields=load.fields,
            messages=load.messages,
            message_bytes=load.message_bytes,
            is_compressed=load.is_compressed,
            expected_content=load.expected_content if load.messages else None,
            expected_file=load.expected_file if load.messages else "",
            content_file=load.content_file,
        )
        self._tool(find("bolide").command(short), short)

    def _measured(self) -> Trial:
        load, server = self._load, self._server
        tool = find(self._workload.tool)
        self._command[:] = tool.command(load)
        cpus = {*self._server_cpus, *self._conditions.load_cpus}
        beside = self._beside
        with (
            ServerSampler(lambda: beside.pids() if beside else ()) as companion,
            ServerSampler(server.pids) as sampler,
        ):
            before, since, own_s = Counters(cpus), time.monotonic(), _own_cpu_s(cpus)
            meter = Meter()
            stdout, stderr, code, threads = self._tool(self._command, load, server, sampler)
            energy_j = meter.used_j()
            after, wall_s = Counters(cpus), time.monotonic() - since
            own_s = _own_cpu_s(cpus) - own_s
        if server.exit_code is not None:
            raise DeadError(f"under load it {server.end_reason()}")
        if escaped := server.processors() - {*self._server_cpus}:
            which = ", ".join(map(str, sorted(escaped)))
            raise EscapedError(f"it may run on processors that are not its own: {which}")
        reading = tool.read(stdout, stderr, code, load)
        if self._conditions.fleet is not None:
            self._conditions.fleet.refuse_others(reading)
        use, companion_use = sampler.use(reading.seconds), companion.use()
        known_s = own_s + (use.cpu_s or 0.0) + (companion_use.cpu_s or 0.0)
        return self._record(
            reading,
            _Used(
                server=_server(use, reading, load, len(self._server_cpus)),
                generator=_generator(threads, reading),
                kernel=self._kernel(before, after, reading.seconds),
                companion=companion_use,
                others_share=_others_share(
                    after.busy_s - before.busy_s, known_s, wall_s, len(cpus)
                ),
                # That of a fleet's start would be in it too.
                energy_j=None if load.fleet else energy_j,
            ),
        )

    def _kernel(self, before: Counters, after: Counters, seconds: float | None) -> KernelDelta:
        """Return by how much the kernel's counters increased, with the shares of interrupts."""
        found: dict[str, float] = {}
        sides = {"server": self._server_cpus}
        if self._conditions.loads_here:
            sides["load"] = self._conditions.load_cpus
        for name, cpus in sides.items():
            interrupted_s = after.interrupted_s(before, cpus)
            if interrupted_s is not None and seconds:
                found[f"{name}_irq_share"] = round(interrupted_s / seconds, 4)
        return msgspec.structs.replace(after.since(before), **found)

    def _tool(
        self,
        command: list[str],
        load: Load,
        server: Process | None = None,
        sampler: ServerSampler | None = None,
    ) -> tuple[str, str, int, ThreadSampler]:
        """Run a load generator until it ends.

        Raises:
            HangError: it does not end in time.
            DeadError: the server ended first.
        """
        folder = self._folder
        limit_s = _load_s_max(load) + load.warm_up_s
        limit_s += load.timeout_s + self._conditions.slack_s + (FLEET_S if load.fleet else 0.0)
        stdout, stderr = folder / "tool-output", folder / "tool-errors"
        give_up = time.monotonic() + limit_s
        with Process(
            command,
            cpus=self._conditions.load_cpus,
            folder=folder,
            log=stdout,
            errors=stderr,
            variables={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        ) as process:
            threads = ThreadSampler(process.pids)
            while process.exit_code is None:
                threads.sample()
                if sampler is not None:
                    sampler.sample()
                if server is not None and server.exit_code is not None:
                    raise DeadError(f"under load it {server.end_reason()}")
                if time.monotonic() > give_up:
                    raise HangError(f"{self._workload.tool} has not ended after {limit_s:.0f} s")
                process.wait(INTERVAL_S)
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in (stdout, stderr))
        return (*texts, process.exit_code or 0, threads)  # type: ignore[return-value]

    def _has_late_clock(self) -> bool:
        is_crowded = self._workload.threads > len(self._conditions.load_cpus)
        return is_crowded and find(self._workload.tool).has_late_clock

    def check_alive(self) -> None:
        """Verify again that it responds.

        Raises:
            DeadError: it does not.
        """
        try:
            self._verified(_single(self._workload))
        except WrongResponseError as error:
            has_ended = self._server.exit_code is not None
            end = f"; it {self._server.end_reason()}" if has_ended else ""
            raise DeadError(f"after the load: {error}{end}") from None

    def _record(self, reading: Reading, used: _Used) -> Trial:
        mean_us = (reading.latency_us or {}).get("mean")
        served = None if reading.served is None else Served(**reading.served)
        flying = service.in_flight(self._workload, reading.requests_per_s, mean_us)
        verdict, evidence = judge(
            Observation(
                workload=self._workload,
                ok=reading.ok or 0,
                failed=reading.failed or 0,
                errors=reading.errors,
                seconds=reading.seconds or 0.0,
                requests_per_s=reading.requests_per_s,
                served=served,
                in_flight=flying,
                waiting_s=reading.waiting_s,
                p99_us=(reading.latency_us or {}).get("p99"),
                server=used.server,
                server_cpus=len(self._server_cpus),
                load_cpus=len(self._conditions.load_cpus) if self._conditions.loads_here else None,
                has_late_clock=self._has_late_clock(),
                is_short_of_time=reading.is_short_of_time,
                local_ports=local_ports() if self._conditions.loads_here else None,
                generator=used.generator,
                kernel=used.kernel,
                others_share=used.others_share,
            )
        )
        return Trial(
            **_head(self._slot, self._conditions, self._started_at, self._command),
            seconds=reading.seconds,
            is_valid=verdict != "errors",
            failure=None,
            ok=reading.ok,
            failed=reading.failed,
            errors=reading.errors,
            requests_per_s=reading.requests_per_s,
            offered_per_s=self._workload.rate_per_s,
            latency_us=reading.latency_us,
            histogram=reading.histogram,
            requests_sent=reading.requests_sent,
            run_bytes=reading.run_bytes,
            bytes_per_s=reading.bytes_per_s,
            served=served,
            in_flight=None if flying is None else round(flying, 2),
            energy_j=used.energy_j,
            companion_cpu_s=used.companion.cpu_s,
            server=used.server,
            generator=used.generator,
            kernel=used.kernel,
            fleet=msgspec.convert(reading.fleet, FleetUse) if reading.fleet else None,
            verdict=verdict,
            evidence=[*evidence, *reading.remarks],
        )


def _server(use: ServerUse, reading: Reading, load: Load, cpus: int) -> ServerUse:
    """Return what the server used; of a short load, samples do not show how busy it was.

    Of a number of requests, its share is all of its processor time. Of a turn, it is the processor
    time of a byte, of all that were received, times those per second. Requests would say less: of
    long responses, few begin and end within a turn. Where the processor's speed changes, this may
    be more than there is: only samples show that the server used other processors.
    """
    if load.requests_total is not None and use.cpu_s is not None and reading.seconds:
        return _with_share(use, max(use.cpu_share or 0.0, min(use.cpu_s / reading.seconds, cpus)))
    if not load.warm_up_s or not reading.run_bytes or use.cpu_s is None:
        return use
    share = use.cpu_s / reading.run_bytes * (reading.bytes_per_s or 0.0)
    return _with_share(use, min(share, max(cpus, use.cpu_share or 0.0)))


def _with_share(use: ServerUse, share: float) -> ServerUse:
    """Return the same with another share of a processor, of which a thread has the same part."""
    part = (use.thread_share or 0.0) / use.cpu_share if use.cpu_share else 0.0
    return msgspec.structs.replace(
        use, cpu_share=round(share, 4), thread_share=round(part * share, 4)
    )


def _generator(threads: ThreadSampler, reading: Reading) -> GeneratorUse:
    """Return what the tool used, as it reports that if it does.

    In a short turn, samples say less. They also take the polling of an open loop for work: a
    thread that is awake before each request is due never sleeps at high rates. Of a fleet, samples
    only show its coordinator.
    """
    cpu_s, share = reading.generator_cpu_s, reading.generator_cpu_share
    use = GeneratorUse() if reading.fleet else threads.use(cpu_s, reading.seconds)
    if cpu_s is None or share is None or not reading.seconds:
        return use
    processors = round(cpu_s / reading.seconds, 4)
    return msgspec.structs.replace(
        use, cpu_s=round(cpu_s, 3), cpu_share=round(share, 4), processors=processors
    )


def _others_share(busy_s: float, known_s: float, wall_s: float, cpus: int) -> float:
    """Return the share of the processors that others used than those whose time is known."""
    return max(0.0, (busy_s - known_s) / wall_s / cpus)


def _load_s_max(load: Load) -> float:
    if load.finds:
        return FIND_S_MAX
    if load.requests_total is None and load.duration_s is not None:
        return load.duration_s
    return max(TOTAL_S_MAX, (load.requests_total or 0) / REQUESTS_PER_S_MIN)


def _own_cpu_s(cpus: set[int]) -> float:
    """Return the processor time of ended tools, and of this process if it runs on `cpus`."""
    users = [resource.RUSAGE_CHILDREN]
    if os.sched_getaffinity(0) <= cpus:
        users.append(resource.RUSAGE_SELF)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, users))


def _as_sent(workload: Workload) -> Workload:
    """Return the workload with the version of HTTP that its tool sends, which is verified."""
    if not find(workload.tool).is_http10:
        return workload
    return msgspec.structs.replace(workload, http_version="1.0")


def _single(workload: Workload) -> Workload:
    """Return a workload with one request on each connection, of which no session is resumed."""
    fields: dict[str, Any] = {"tls": "full"} if workload.tls else {}
    return msgspec.structs.replace(workload, is_persistent=False, pipeline_depth=1, **fields)
