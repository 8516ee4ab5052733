"""Logs requests that run for long, and where they are, while they run.

A thread asks the server several times within `slow_request_ms`. It is not the event loop's, so a
handler that blocks the loop is reported while it blocks. One that holds the interpreter (GIL) too
is reported when it releases it; `heartbeat.py` is for that.
"""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from _thread import get_ident, start_new_thread  # libraries replace those of `threading`
from collections.abc import Iterator
from contextlib import suppress
from itertools import dropwhile
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from bolide.server.logs import about_request, logger
from bolide.server.process.lifetime import as_written

if TYPE_CHECKING:
    from types import FrameType

    from bolide import _core
    from bolide.config.settings import Settings

REPORTS_PER_S_MAX = 10
"""A worker whose database hangs would otherwise log every request that waits for it."""
LOOKS = 4
"""How often the server is asked within the time: a request is reported a quarter late at most."""
LOOK_S_MIN, LOOK_S_MAX = 0.01, 0.5
FRAMES_MAX = 32
"""Innermost frames of a stack that are shown."""
AWAITS_MAX = 256
"""Coroutines that are followed: deeper than an application is, and bounded."""
STARTS = (os.path.dirname(asyncio.__file__) + os.sep, threading.__file__)
"""What a thread that calls the application is in: the event loop, or the start of a thread."""
OUTER = (*STARTS, os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep)
"""The same and the server, which call the application."""

Running = tuple[str, float, bool, "asyncio.Task[Any] | None", "int | None"]
Frames = dict[int, "FrameType"]


class SlowRequests:
    """The thread that reports the slow requests of one server."""

    def __init__(self, server: _core.Server, settings: Settings) -> None:
        limit_ms = settings.slow_request_ms
        self._server = server
        self._limit = as_written(settings, "slow_request_ms", str(limit_ms))
        self._every_s = min(max(limit_ms / 1000 / LOOKS, LOOK_S_MIN), LOOK_S_MAX)
        self._loop_thread = 0
        self._second = 0.0
        self._reports = 0
        """Written since `_second`."""
        self._suppressed = 0
        self._is_over = False

    def watch(self) -> None:
        """Start the thread. Called in the event loop's."""
        self._loop_thread = get_ident()
        try:
            start_new_thread(self._look_again, ())
        except RuntimeError:
            logger.warning("no thread is left for slow requests: slow_request_ms has no effect")

    def end(self) -> None:
        """Report what has not been, and let the thread end."""
        self._is_over = True
        self.look()
        self._tell_suppressed()

    def look(self) -> None:
        """Report what is new, as far as there is room in this second."""
        now = monotonic()
        if now - self._second >= 1:
            self._tell_suppressed()
            self._second, self._reports = now, 0
        news = self._server.slow_requests(REPORTS_PER_S_MAX - self._reports)
        if news is None:
            return
        running, ended, suppressed, frames = news
        self._reports += len(running) + len(ended)
        self._suppressed += suppressed
        for each in running:
            text = "%s: no response for %.3f s, and still running (%s)%s"
            given = *each[:2], self._limit, self._where(each, frames)
            logger.warning(text, *given, extra=about_request(each[0]))
        for title, took_s in ended:
            text = "%s: its response took %.3f s (%s)"
            logger.warning(text, title, took_s, self._limit, extra=about_request(title))

    def _look_again(self) -> None:
        while not self._is_over:
            sleep(self._every_s)
            with suppress(MemoryError):  # the thread goes on, and reports what it can later
                self.look()

    def _tell_suppressed(self) -> None:
        if count := self._suppressed:
            self._suppressed = 0
            logger.warning("%d more slow request(s) were not reported (%s)", count, self._limit)

    def _where(self, running: Running, frames: Frames) -> str:
        try:
            stack = "".join(self._stack(running, frames)).rstrip()
        except Exception as error:  # a library's objects may be unlike asyncio's
            return f"; its stack cannot be read: {error!r}"
        return f"; it is at:\n{stack}" if stack else ""

    def _stack(self, running: Running, frames: Frames) -> list[str]:
        """Return the lines of a stack, the outermost first, as in tracebacks."""
        _, _, is_in_call, task, thread = running
        if task is not None and not getattr(task.get_coro(), "cr_running", False):
            return traceback.format_list(list(awaits(task))[-FRAMES_MAX:])
        if is_in_call or task is not None:
            thread = self._loop_thread
        frame = frames.get(thread) if thread is not None else None
        if frame is None:
            return []
        stack = inner(traceback.extract_stack(frame))
        return traceback.format_list(stack[-FRAMES_MAX:])


def inner(stack: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Leave out the frames of the server and the event loop, and what called those."""
    started = list(dropwhile(lambda each: not each.filename.startswith(STARTS), stack))
    return list(dropwhile(lambda each: each.filename.startswith(OUTER), started))


def awaits(task: asyncio.Task[Any]) -> Iterator[traceback.FrameSummary]:
    """Return where the coroutines of a task are suspended, and those of tasks that it awaits."""
    waiter: object = task
    each: Any = task.get_coro()
    for _ in range(AWAITS_MAX):
        if each is None and (waiter := _awaited(waiter)) is not None:
            each = waiter.get_coro() if isinstance(waiter, asyncio.Task) else None
            continue
        frame = _first(each, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            yield from traceback.StackSummary.extract(iter([(frame, frame.f_lineno)]))
        each = _first(each, "cr_await", "gi_yieldfrom", "ag_await")
        if each is None and waiter is None:
            return


def _awaited(future: object) -> object:
    """Return what a task waits for: of several tasks, the first that has not ended."""
    children = getattr(future, "_children", None)  # of gather()
    pending = (each for each in children or () if not each.done())
    return next(pending, None) or getattr(future, "_fut_waiter", None)


def _first(each: object, *names: str) -> Any:
    return next((found for name in names if (found := getattr(each, name, None)) is not None), None)
