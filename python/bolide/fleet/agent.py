"""An agent: responds to the coordinator's messages, within its limits. Knows nothing of Dask."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import Callable
from pathlib import Path

from bolide import _core
from bolide.errors import Error
from bolide.fleet import clock, wire
from bolide.fleet.job import PREPARED_S_MAX, RECORD_S, Job
from bolide.fleet.limits import Limits, RefusedError
from bolide.fleet.seal import Guard, SealError, Stamp

PAST_S_MAX = 1.0
"""What was due since the start is sent at once, at no rate: so the start cannot be long ago."""


class Agent:
    """One agent, which executes one run at a time."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        now_ns: Callable[[], int] = clock.now_ns,
        secret: bytes | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.has_secret = secret is not None
        self._guard = Guard(secret)
        self._now_ns = now_ns
        self._job: Job | None = None
        self._turn = asyncio.Lock()
        self._may_respond = asyncio.Event()
        self._may_respond.set()

    def hold(self) -> None:
        """Let messages wait until `admit`: it is not known yet who can send them."""
        self._may_respond.clear()

    def admit(self) -> None:
        """Respond to messages, also to those that wait."""
        self._may_respond.set()

    async def respond(self, octets: bytes) -> bytes:
        """Respond to one message; a mistake of the coordinator is a refusal, and so is one of ours.

        Dask would report only that there was an exception.
        """
        await self._may_respond.wait()
        stamp: Stamp | None = None
        found: wire.Reply
        try:
            envelope = wire.envelope(octets)
            if envelope.seal is not None:
                stamp = self._guard.check(envelope)
            asked = wire.question_in(envelope)
            if isinstance(asked, wire.Greet):
                return wire.encode(self._guard.greet(asked.nonce))
            if stamp is None:
                self._guard.check(envelope)
            found = await self._respond(asked)
        except wire.VersionError as error:
            found = wire.Refusal(reason=f"the coordinator has {error}", is_mistake=True)
        except Error as error:
            is_mistake = isinstance(error, RefusedError | SealError)
            found = wire.Refusal(reason=str(error), is_mistake=is_mistake)
        except Exception as error:
            found = wire.Refusal(reason=f"it failed: {type(error).__name__}: {error}")
        return self._guard.sealed(found, stamp)

    async def close(self) -> None:
        """End what runs."""
        if self._job is not None:
            await self._job.fail("the agent has ended")

    async def _respond(self, question: wire.Question) -> wire.Reply:
        # The clock is read at once, whatever else goes on.
        match question:
            case wire.Clock():
                return wire.Time(now_ns=self._now_ns())
            case wire.Hello():
                return self._description()
        async with self._turn:
            return await self._reply(question)

    async def _reply(self, question: wire.Question) -> wire.Reply:
        match question:
            case wire.Prepare(run=run, order=order):
                return await self._prepare(run, order)
            case wire.Begin(run=run, at_ns=at_ns):
                return await self._begin(self._found(run), at_ns)
            case wire.Look(run=run, counts=counts):
                return _state(await self._found(run).ask(do="look", counts=counts))
            case wire.Stop(run=run):
                return _state(await self._found(run).ask(do="stop"))
            case wire.Fetch(run=run, offset=offset):
                return await self._fetch(self._found(run), offset)
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
        if self._job is not None:
            if not self._job.is_free:
                raise Error("it executes another run")
            await self._job.end()
        self.limits.check(order)
        self._job = Job(run, order, self.limits)
        self._job.start()
        return wire.State(phase="preparing")

    async def _begin(self, job: Job, at_ns: int) -> wire.Reply:
        ahead_ns = at_ns - self._now_ns()
        if ahead_ns > PREPARED_S_MAX * 1e9:
            raise Error(f"the start is more than {PREPARED_S_MAX:.0f} s away")
        if ahead_ns < -PAST_S_MAX * 1e9:
            raise Error(f"the start was more than {PAST_S_MAX:.0f} s ago")
        ours_ns = max(0, clock.now_ns() + ahead_ns)
        job.begins(ours_ns)
        return _state(await job.ask(do="begin", at_ns=ours_ns))

    async def _fetch(self, job: Job, offset: int) -> wire.Reply:
        found = await job.ask(RECORD_S, do="record", offset=offset)
        if found.get("phase") == "failed":
            raise Error(found["reason"])
        piece, total = found.get("piece", ""), found.get("total", 0)
        return wire.Part(
            has_ended="piece" in found,
            piece=piece,
            total=total,
            ended=job.ended,
            target=job.target,
        )

    def _description(self) -> wire.Description:
        system = platform.uname()
        return wire.Description(
            name=self.name,
            host=socket.gethostname(),
            processors=len(os.sched_getaffinity(0)),
            kernel=f"{system.system} {system.release}",
            processor=_processor() or system.machine,
            memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            python=platform.python_version(),
            is_release_build=_core.is_release_build,
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
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")
