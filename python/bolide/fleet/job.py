"""A run on an agent: the process of its generator, and what ends it when nobody else does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bolide.errors import Error
from bolide.fleet import clock
from bolide.fleet.generator import Assignment
from bolide.fleet.limits import Limits
from bolide.fleet.wire import Order

Result = TypeVar("Result")

MODULE = (sys.executable, "-P", "-m")
"""Runs a module of ours: with -P, none of the same name that is in the current folder."""
LINE_BYTES_MAX = 1 << 22
"""Several times what a line with a piece of a result has."""
START_S = 20.0
"""How long Python may take to start a generator, on a machine that is busy."""
REPLY_S = 5.0
RECORD_S = 60.0
"""How long a generator may take to write down a result of hours."""
END_S = 5.0
ABANDONED_S = 10.0
"""A coordinator asks several times per second; after this time without a question it is gone."""
KEPT_S = 60.0
"""After this time without a question, nobody fetches the result any more."""
HUNG_S = 5.0
"""How much longer a generator waits for its agent, which should have ended the load."""
PREPARED_S_MAX = 60.0
"""How long connections may be open before the load starts."""
DRAIN_S_MAX = 30.0
"""How long requests in flight may be waited for after the last one was sent."""
WATCH_S = 0.25


class Job:
    """One run: its generator, and when it was asked for last."""

    def __init__(self, run: str, order: Order, limits: Limits) -> None:
        self.run = run
        self.ended = ""
        """At what, or why, the agent ended the load; the result is kept."""
        self.target = ""
        """The address of the server, once its name is resolved."""
        self.is_abandoned = False
        self.failure: Error | None = None
        """Why there is no generator any more."""
        self._order = order
        self._limits = limits
        self._created_s = self._heard_s = _now_s()
        self._begins_s: float | None = None
        self._cut_s: float | None = None
        self._is_done = False
        self._number = 0
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Resolve the target and start the generator, which opens its connections.

        This returns at once; what goes wrong is the error of the next question.
        """
        self._starting = asyncio.create_task(self._start())
        self._watch = asyncio.create_task(self._watch_over())

    @property
    def is_free(self) -> bool:
        """Whether another run may take its place."""
        has_exited = self._process is not None and self._process.returncode is not None
        return self._end is not None or self.is_abandoned or has_exited

    @property
    def is_ended(self) -> bool:
        """Whether the generator is gone."""
        return self._end is not None and self._end.done()

    def heard(self) -> None:
        """Note that the coordinator is there."""
        self._heard_s = _now_s()

    def begins(self, at_ns: int) -> None:
        """Note when the load begins, in the time of this machine's clock.

        Raises:
            Error: that is known already; a load that began again would exceed its limits.
        """
        if self._begins_s is not None:
            raise Error("the load has its start already")
        self._begins_s = at_ns / 1e9

    async def ask(self, timeout_s: float = REPLY_S, **line: Any) -> dict[str, Any]:
        """Have the generator respond to a line.

        Raises:
            Error: it has not started or has ended, or does not respond.
        """
        if self._starting is not None and not self._starting.done():
            if line["do"] == "look":
                return {"phase": "preparing"}
            raise Error("its generator has not started yet")
        async with self._turn:
            self._number += 1
            octets = json.dumps(line | {"number": self._number}).encode()
            return await self._exchange(octets, self._number, timeout_s)

    async def end(self) -> None:
        """End the generator, and wait for it. Several may call this."""
        if self._end is None:
            self._end = asyncio.create_task(self._end_process())
        await asyncio.shield(self._end)

    async def fail(self, failure: Error | str) -> None:
        """End without a result, and say why to those that ask."""
        self.failure = self.failure or (Error(failure) if isinstance(failure, str) else failure)
        await self.end()

    async def _start(self) -> None:
        try:
            await self._start_process()
        except Error as error:
            await self.fail(error)
        except OSError as error:
            await self.fail(error.strerror or str(error))

    async def _start_process(self) -> None:
        host, port = self._order.host, self._order.port
        self.target = str(await _in_thread(lambda: self._limits.address_of(host, port)))
        self._process = await asyncio.create_subprocess_exec(
            *MODULE,
            "bolide.fleet.generator",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # an interrupt of the terminal is the agent's
        )
        run_s_max = self._run_s_max + 2 * END_S
        given = Assignment(self._order, self.target, run_s_max, ABANDONED_S + HUNG_S)
        first = await self._exchange(msgspec.json.encode(given), 0, START_S)
        if first["phase"] == "failed":
            raise Error(first["reason"])

    async def _end_process(self) -> None:
        tasks = {each for each in (self._watch, self._starting) if each is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
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

    async def _exchange(self, line: bytes, number: int, timeout_s: float) -> dict[str, Any]:
        """Write a line, and read the reply to it.

        A reply that came too late for its question is skipped.
        """
        process = self._process
        if self._end is not None or not process or not process.stdin or not process.stdout:
            raise self._ended()
        try:
            async with asyncio.timeout(timeout_s):
                process.stdin.write(line + b"\n")
                await process.stdin.drain()
                while reply := await process.stdout.readline():
                    found: dict[str, Any] = json.loads(reply)
                    if found["number"] == number:
                        return found
        except TimeoutError:
            raise Error(f"its generator did not respond for {timeout_s:.0f} s") from None
        except OSError as error:
            why = error.strerror or "it was killed, or has closed its connection"
            raise Error(f"its generator has ended: {why}") from None
        except ValueError as error:
            raise Error(f"its generator's reply cannot be read: {error}") from None
        raise self._ended()

    def _ended(self) -> Error:
        failure = self.failure or Error("its generator has ended")
        return type(failure)(str(failure))  # of its own, because each that is raised has its stack

    async def _watch_over(self) -> None:
        """End a load that the coordinator has abandoned, or that takes longer than allowed."""
        while True:
            await asyncio.sleep(WATCH_S)
            now_s = _now_s()
            silent_s = now_s - self._heard_s
            if silent_s > (ABANDONED_S if self._begins_s is None else KEPT_S):
                return await self.fail(f"the coordinator was silent for {silent_s:.0f} s")
            if self._begins_s is None:
                if now_s - self._created_s > PREPARED_S_MAX:
                    return await self.fail(f"the load did not start within {PREPARED_S_MAX:.0f} s")
                continue
            if silent_s > ABANDONED_S and not self.is_abandoned:
                self.is_abandoned = True
                await self._cut(f"because the coordinator was silent for {ABANDONED_S:.0f} s")
            elif now_s > self._begins_s + self._run_s_max and self._cut_s is None:
                await self._cut("at its --duration-max")
            elif self._cut_s is not None and now_s > self._cut_s + END_S and not self._is_done:
                return await self.fail(f"its generator did not end the load {self.ended}")

    async def _cut(self, why: str) -> None:
        """End the load; what it counted is kept."""
        self._cut_s = _now_s()
        try:
            while (await self.ask(do="stop"))["phase"] != "done":
                self.ended = self.ended or why
                if _now_s() > self._cut_s + END_S:
                    return
                await asyncio.sleep(WATCH_S)
            self._is_done = True
        except Error as error:
            await self.fail(error)

    @property
    def _run_s_max(self) -> float:
        """How long the load may take."""
        drain_s = 0.0 if self._order.length_s is None else min(self._order.timeout_s, DRAIN_S_MAX)
        return self._limits.duration_s_max + drain_s


async def _in_thread(call: Callable[[], Result]) -> Result:
    """Call what blocks, in a thread for which the end of this process does not wait.

    It waits for the threads of `asyncio.to_thread`, and a name may take long to resolve.
    """
    found: concurrent.futures.Future[Result] = concurrent.futures.Future()
    found.set_running_or_notify_cancel()  # from now on, it can be set whatever happens here

    def work() -> None:
        try:
            found.set_result(call())
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(found)


def _now_s() -> float:
    return clock.now_ns() / 1e9
