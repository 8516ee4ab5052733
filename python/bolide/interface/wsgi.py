"""A WSGI application as the server holds it, and where its `wsgi.errors` goes."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from bolide import _core
from bolide.errors import ClientDisconnected

__all__ = ["ErrorLog", "WsgiApplication"]

Callback = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
LAST_WORDS_S: Final = 0.5
"""What threads have at the end: their requests are over, so only a view that waits needs longer."""
UNFINISHED_MAX: Final = 65_536
"""Characters of an unfinished line that are held; beyond it they are logged as they are."""


class WsgiApplication:
    """A callable of PEP 3333, and the threads that call it.

    With one thread it is the server's own, and none is started here.
    """

    def __init__(self, app: Callback, *, root_path: str = "") -> None:
        errors = ErrorLog(logging.getLogger("bolide.error"))
        self._core = _core.WsgiApp(
            app, root_path=root_path, errors=errors, disconnected=ClientDisconnected
        )
        self._threads: list[threading.Thread] = []

    def core(self) -> _core.WsgiApp:
        """Give what the core serves."""
        return self._core

    async def startup(self) -> None:
        """Start the threads."""
        if self._core.threads:
            self._start(self._core.run_reports, "bolide-reports")
        for number in range(self._core.threads):
            self._start(self._core.run_thread, f"bolide-{number + 1}")

    async def shutdown(self) -> None:
        """End the threads; one whose view does not return is left behind, the process may end."""
        self._core.close()
        end = time.monotonic() + LAST_WORDS_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


class ErrorLog(io.TextIOBase):
    """A text stream of which each line becomes an error in the log.

    What a thread has written of a line is its own until the line, or a `flush()`, ends it.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._own = threading.local()

    def writable(self) -> bool:
        """Tell that it takes text."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; log the lines that it ends.

        Raises:
            TypeError: it is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"wsgi.errors takes str, not {type(text).__name__}")
        lines, end, rest = (getattr(self._own, "unfinished", "") + text).rpartition("\n")
        self._own.unfinished = rest
        if end and lines:
            self._logger.error("%s", lines)
        if len(rest) > UNFINISHED_MAX:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Log the line that is not finished."""
        unfinished = getattr(self._own, "unfinished", "")
        if unfinished:
            self._own.unfinished = ""
            self._logger.error("%s", unfinished)
