"""An agent: responds to the coordinator's messages, within its limits. Knows nothing of Dask."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import Callable
from pathlib import Path

from bolide.errors import Error
from bolide.fleet import clock, wire
from bolide.fleet.generator import Assignment
from bolide.fleet.job import PREPARED_S_MAX, Job
from bolide.fleet.limits import Limits


class Agent:
    """One agent, which executes one run at a time."""

    def __init__(self, name: str, limits: Limits, now_ns: Callable[[], int] = clock.now_ns) -> None:
        self.name = name
        self.limits = limits
        self._now_ns = now_ns
        self._job: Job | None = None
        self._turn = asyncio.Lock()

    async def respond(self, octets: bytes) -> bytes:
        """Respond to one message; a mistake of the coordinator is a refusal."""
        try:
            question = wire.question(octets)
            # The clock is read at once, whatever else goes on.
            if isinstance(question, wire.Clock):
                return wire.encode(wire.Time(now_ns=self._now_ns()))
            async with self._turn:
                return wire.encode(await self._reply(question))
        except wire.VersionError as error:
            return wire.encode(wire.Refusal(reason=f"the coordinator has {error}"))
        except Error as error:
            return wire.encode(wire.Refusal(reason=str(error)))

    async def close(self) -> None:
        """End what runs."""
        if self._job is not None:
            await self._job.end()

    async def _reply(self, question: wire.Question) -> wire.Reply:
        match question:
            case wire.Hello():
                return self._description()
            case wire.Prepare(run=run, order=order):
                return await self._prepare(run, order)
            case wire.Begin(run=run, at_ns=at_ns):
                return await self._begin(self._found(run), at_ns)
            case wire.Look(run=run, counts=counts):
                return _state(await self._found(run).ask(do="look", counts=counts))
            case wire.Stop(run=run):
                return _state(await self._found(run).ask(do="stop"))
            case wire.Fetch(run=run):
                return await self._fetch(self._found(run))
            case wire.Forget(run=run):
                await self._found(run).end()
                return wire.Done()
        raise Error("there is no such message")

    def _found(self, run: str) -> Job:
        if self._job is None or self._job.run != run:
            raise Error("it does not have this run any more")
        self._job.heard()
        return self._job

    async def _prepare(self, run: str, order: wire.Order) -> wire.Reply:
        if self._job is not None and self._job.is_ending:
            await self._job.end()
        if self._job is not None and not self._job.is_ended:
            raise Error("it executes another run")
        self.limits.check(order)
        address = await asyncio.to_thread(self.limits.address_of, order.host, order.port)
        job = Job(run, Assignment(order, str(address)), self.limits.duration_s_max)
        await job.start()
        self._job = job
        return wire.State(phase="opening")

    async def _begin(self, job: Job, at_ns: int) -> wire.Reply:
        ours_ns = at_ns - self._now_ns() + clock.now_ns()
        if ours_ns > clock.now_ns() + PREPARED_S_MAX * 1e9:
            raise Error(f"the start is more than {PREPARED_S_MAX:.0f} s away")
        job.begins(ours_ns)
        return _state(await job.ask(do="begin", at_ns=max(0, ours_ns)))

    async def _fetch(self, job: Job) -> wire.Reply:
        found = await job.ask(do="record")
        if "record" not in found:
            raise Error(found.get("reason") or "the run has not ended")
        await job.end()
        return wire.Result(record=found["record"], was_cut=job.was_cut)

    def _description(self) -> wire.Description:
        system = platform.uname()
        return wire.Description(
            name=self.name,
            host=socket.gethostname(),
            processors=len(os.sched_getaffinity(0)),
            kernel=f"{system.system} {system.release}",
            processor=_processor() or system.machine,
            python=platform.python_version(),
            limits=self.limits.as_message(),
        )


def _state(found: dict[str, str]) -> wire.State:
    """Make a message of what a generator wrote."""
    return wire.State(
        phase=found["phase"], snapshot=found.get("snapshot"), reason=found.get("reason", "")
    )


def _processor() -> str:
    """Return the name of the processor; "" if the kernel does not say it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")
