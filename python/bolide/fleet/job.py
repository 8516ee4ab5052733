"""A run on an agent: the process of its generator, and what ends it when nobody else does."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import msgspec

from bolide.errors import Error
from bolide.fleet import clock
from bolide.fleet.generator import Assignment

LINE_BYTES_MAX = 1 << 28
"""A result has every second of a run with its histogram."""
START_S = 20.0
"""How long Python may take to start a generator, on a machine that is busy."""
REPLY_S = 5.0
END_S = 5.0
ABANDONED_S = 10.0
"""A coordinator asks several times per second; after this time without a question it is gone."""
PREPARED_S_MAX = 60.0
"""How long connections may be open before the load starts."""
DRAIN_S_MAX = 30.0
"""How long requests in flight may be waited for after the last one was sent."""
WATCH_S = 0.25


class Job:
    """One run: its generator, and when it was asked for last."""

    def __init__(self, run: str, assignment: Assignment, duration_s_max: float) -> None:
        self.run = run
        self.was_cut = False
        self.reason = ""
        """Why it was ended by the agent."""
        self._assignment = assignment
        self._duration_s_max = duration_s_max
        self._created_s = self._heard_s = _now_s()
        self._begins_s: float | None = None
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the generator, which opens its connections.

        Raises:
            Error: it refuses the order, or the machine lacks a resource.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bolide.fleet.generator",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # an interrupt of the terminal is the agent's
        )
        try:
            first = await self._exchange(msgspec.json.encode(self._assignment), START_S)
            if first["phase"] == "failed":
                raise Error(first["reason"])
        except Error:
            await self.end()
            raise
        self._watch = asyncio.create_task(self._watch_over())

    @property
    def is_ending(self) -> bool:
        """Whether nobody needs the generator any more."""
        return self._end is not None

    @property
    def is_ended(self) -> bool:
        """Whether the generator is gone."""
        return self._process is None or self._process.returncode is not None

    def heard(self) -> None:
        """Note that the coordinator is there."""
        self._heard_s = _now_s()

    def begins(self, at_ns: int) -> None:
        """Note when the load begins, in the time of this machine's clock."""
        self._begins_s = at_ns / 1e9

    async def ask(self, **line: Any) -> dict[str, Any]:
        """Have the generator respond to a line.

        Raises:
            Error: it has ended, or does not respond.
        """
        return await self._exchange(json.dumps(line).encode())

    async def end(self) -> None:
        """End the generator, and wait for it. Several may call this."""
        if self._end is None:
            self._end = asyncio.create_task(self._end_process())
        await asyncio.shield(self._end)

    async def _end_process(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _exchange(self, line: bytes, timeout_s: float = REPLY_S) -> dict[str, Any]:
        async with self._turn:
            process = self._process
            if self.is_ending or not process or not process.stdin or not process.stdout:
                raise Error(self.reason or "its generator has ended")
            try:
                process.stdin.write(line + b"\n")
                await asyncio.wait_for(process.stdin.drain(), timeout_s)
                reply = await asyncio.wait_for(process.stdout.readline(), timeout_s)
            except TimeoutError:
                raise Error(f"its generator did not respond for {timeout_s:.0f} s") from None
            except OSError as error:
                raise Error(f"its generator has ended: {error.strerror}") from None
            if not reply:
                raise Error("its generator has ended")
            found: dict[str, Any] = json.loads(reply)
            return found

    async def _watch_over(self) -> None:
        """End a run that the coordinator has abandoned, or that takes longer than allowed."""
        while True:
            await asyncio.sleep(WATCH_S)
            now_s = _now_s()
            if now_s - self._heard_s > ABANDONED_S:
                self.reason = f"the coordinator was silent for {ABANDONED_S:.0f} s"
                return await self.end()
            if self._begins_s is None:
                if now_s - self._created_s > PREPARED_S_MAX:
                    self.reason = f"the load did not start within {PREPARED_S_MAX:.0f} s"
                    return await self.end()
            elif now_s > self._begins_s + self._run_s_max + END_S:
                self.reason = "it was longer than --duration-max"
                return await self.end()
            elif now_s > self._begins_s + self._run_s_max and not self.was_cut:
                try:
                    self.was_cut = (await self.ask(do="stop"))["phase"] != "done"
                except Error:
                    return await self.end()

    @property
    def _run_s_max(self) -> float:
        """How long the load may take."""
        order = self._assignment.order
        drain_s = 0.0 if order.length_s is None else min(order.timeout_s, DRAIN_S_MAX)
        return self._duration_s_max + drain_s


def _now_s() -> float:
    return clock.now_ns() / 1e9
