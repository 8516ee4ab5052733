"""What ends a worker: TERM, the end of its supervisor, or what an application does to the loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable
from itertools import dropwhile
from types import FrameType

from bolide.server import forked
from bolide.server.logs import logger

EXIT_APPLICATION = 1
"""The application has ended its event loop."""
OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
"""The folder of this package."""
UVLOOP = "uvloop/"
"""What the frames of its compiled modules are named after."""
STOPPED = "Event loop stopped before Future completed."
"""What asyncio and uvloop raise after `loop.stop()`."""


class Ending:
    """The end of a worker, which TERM and the supervisor's end begin.

    Libraries with endless responses find it as they find uvicorn's server: the handler of TERM is a
    method of an object whose `should_exit` is true from then on (sse-starlette).
    """

    is_loop_stopped = False
    """The loop has stopped already: what is still cancelled is its own doing."""

    def __init__(self, lifeline_fd: int) -> None:
        self.should_exit = False
        self._begun = asyncio.Event()
        self._starting: asyncio.Task[object] | None = None
        self._lifeline_fd = lifeline_fd
        running = asyncio.get_running_loop()
        running.add_signal_handler(signal.SIGTERM, self._begin)
        # The loop's own handler does nothing: the loop reads the signal from a descriptor.
        signal.signal(signal.SIGTERM, self.handle_exit)
        signal.siginterrupt(signal.SIGTERM, False)
        forked.restore_term()
        running.add_reader(lifeline_fd, self._supervisor_ended)

    @property
    def has_begun(self) -> bool:
        """Whether the worker is to end."""
        return self._begun.is_set()

    async def wait(self) -> int:
        """Wait until the worker is to end. Return its exit status, in case nothing else fails."""
        try:
            await self._begun.wait()
        except asyncio.CancelledError:
            if self.is_loop_stopped:
                raise
            # What it has begun is finished nevertheless.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            self.should_exit = True
            return cancelled()
        return 0

    async def starts(self, startup: Awaitable[None]) -> bool:
        """Await a startup, which the end of the worker cancels: no request waits for it.

        Return whether it has completed; it may have done so although it was cancelled.
        """
        self._starting = task = asyncio.current_task()
        is_complete = False
        try:
            await startup
            is_complete = True
            if self.has_begun:
                await asyncio.sleep(0)  # where the cancellation arrives, if it was too late
        except asyncio.CancelledError:
            if not self.has_begun:
                raise
        finally:
            self._starting = None
            if self.has_begun and task is not None and task.cancelling():
                task.uncancel()
        return is_complete

    def handle_exit(self, _number: int, _frame: FrameType | None) -> None:
        """Handle TERM, as the interpreter calls it; the loop calls `_begin`."""
        self.should_exit = True

    def _begin(self) -> None:
        self.should_exit = True
        if self._starting is not None and not self.has_begun:
            self._starting.cancel()
        self._begun.set()

    def _supervisor_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._lifeline_fd)
        self._begin()


def cancelled() -> int:
    """Log that the application has cancelled the server's own task, and return the exit status."""
    logger.error(
        "the application cancelled the main task of the event loop, which ends the worker: "
        "asyncio.all_tasks() contains tasks of the server and of other requests; cancel only yours"
    )
    return EXIT_APPLICATION


def of_loop(error: BaseException) -> int:
    """Log how the application has ended the event loop, and return the exit status.

    Raises:
        BaseException: the error, if it is none of the application's.
    """
    Ending.is_loop_stopped = True
    # Of a request's handler, either is that request's error.
    if isinstance(error, SystemExit):
        return _exited(error, f"called sys.exit({error.code!r})")
    if isinstance(error, KeyboardInterrupt):  # no signal has raised it: a worker ignores INT
        return _exited(error, "raised KeyboardInterrupt")
    if isinstance(error, asyncio.CancelledError):
        return cancelled()
    if isinstance(error, RuntimeError) and str(error) == STOPPED:
        logger.error("the application called loop.stop(), which ends the worker")
        return EXIT_APPLICATION
    raise error


def _exited(error: BaseException, how: str) -> int:
    """Log how and where a task or a callback of the application has ended the event loop."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = dropwhile(lambda each: _is_outer(each.filename), frames)
    text = "the application %s outside of a request, which ends the worker%s"
    shown = "".join(traceback.format_list(own)).rstrip()
    logger.error(text, how, f":\n{shown}" if shown else "")
    return EXIT_APPLICATION


def _is_outer(file: str) -> bool:
    """Return whether a frame is of the server or the event loop, which call the application."""
    return file.startswith((OURS, os.path.dirname(asyncio.__file__), UVLOOP))
