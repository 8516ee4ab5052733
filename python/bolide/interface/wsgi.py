"""A WSGI application, its threads, and the stream `wsgi.errors`."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from bolide import _core
from bolide.errors import ClientDisconnected

__all__ = ["ErrorStream", "WsgiApplication"]

Callback = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
LAST_WORDS_S: Final = 0.5
"""Seconds for threads to end at shutdown: only a view that still waits needs longer."""
LAST_LOOK_S: Final = 0.002
"""How often a shutdown looks whether the threads have ended."""
FINISHED_AGAIN_S: Final = 0.02
"""How often a drain looks whether threads still work."""
UNFINISHED_MAX: Final = 65_536
"""Characters of an unfinished line that are held; a longer one is written as it is."""


class WsgiApplication:
    """A callable of PEP 3333, and the threads that call it.

    With one thread, the server's own thread calls it, and none is started here.
    """

    def __init__(self, app: Callback, *, root_path: str = "") -> None:
        errors = ErrorStream()
        self._core = _core.WsgiApp(
            app, root_path=root_path, errors=errors, disconnected=ClientDisconnected
        )
        errors.note_unfinished = self._core.note_unfinished_line
        self._errors = errors
        self._threads: list[threading.Thread] = []

    def core(self) -> _core.WsgiApp:
        """Return what the core serves."""
        return self._core

    async def startup(self) -> None:
        """Start the threads."""
        if self._core.threads:
            self._start(self._core.run_reports, "bolide-reports")
        for number in range(self._core.threads):
            self._start(self._core.run_thread, f"bolide-{number + 1}")

    async def finish(self) -> None:
        """Wait for calls that go on after their responses, or although their clients have left."""
        while self.busy_threads:
            await asyncio.sleep(FINISHED_AGAIN_S)

    @property
    def busy_threads(self) -> int:
        """How many threads run a call."""
        return self._core.busy_threads

    @property
    def is_stuck(self) -> bool:
        """Whether every thread runs a call for which no client waits any more."""
        return 0 < self._core.threads <= self._core.abandoned_threads

    async def shutdown(self) -> None:
        """End the threads; one whose view does not return does not keep the process alive."""
        self.close()
        await self.ended()

    def close(self) -> None:
        """Let the threads end."""
        self._core.close()

    async def ended(self) -> None:
        """Wait until the threads have ended, for a bounded time."""
        end = time.monotonic() + LAST_WORDS_S
        while any(each.is_alive() for each in self._threads) and time.monotonic() < end:
            await asyncio.sleep(LAST_LOOK_S)
        # The core holds the stream, and would hold itself by it.
        self._errors.note_unfinished = bool

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        # The application's threads inherit this: what they do is finished before the process ends,
        # as under gunicorn. This one was started as a daemon, and is not waited for.
        thread._daemonic = False  # type: ignore[attr-defined]
        self._threads.append(thread)


class ErrorStream(io.TextIOBase):
    """A text stream to standard error, which does not mix the lines of threads.

    Lines are written as they are: what an application writes has its own format and level. An
    unfinished line belongs to the thread that writes it. It is written when it is complete, by
    `flush()`, or when the call of the application ends.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self.note_unfinished: Callable[[bool], object] = bool
        """Called when the calling thread leaves a line unfinished, and when that ends."""

    def writable(self) -> bool:
        """Return True: the stream accepts text."""
        return True

    def write(self, text: str, /) -> int:
        """Write the lines that the text completes.

        Raises:
            TypeError: it is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"wsgi.errors takes str, not {type(text).__name__}")
        before = getattr(self._own, "unfinished", "")
        lines, end, rest = (before + text).rpartition("\n")
        self._own.unfinished = rest
        if bool(rest) != bool(before):
            self.note_unfinished(bool(rest))
        if end:
            _write_lines(lines)
        if len(rest) > UNFINISHED_MAX:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write the unfinished line."""
        unfinished = getattr(self._own, "unfinished", "")
        if unfinished:
            self._own.unfinished = ""
            self.note_unfinished(False)
            _write_lines(unfinished)


def _write_lines(text: str) -> None:
    """Write to the standard error of now; an application need not care whether anybody reads it."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # no reader, a full disk, or closed
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
