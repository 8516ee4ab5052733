"""Does what may hang, such as reading from a network file system, without hanging itself.

The work runs in a thread of its own, because nothing ends a system call that waits for a file
server. A thread that hangs is abandoned; until it has ended, there is no other attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class HangsError(Exception):
    """The work has not ended in time."""


class NoThreadError(HangsError):
    """The work has not begun, because this process can have no more threads now."""


class Patience:
    """Runs one work after the other, and waits for each for a limited time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], T], within_s: float) -> T:
        """Return what `work` returns.

        Raises:
            HangsError: it has not ended within that time, or an earlier work is still running.
            NoThreadError: no thread can be started.
        """
        if self._thread is not None and self._thread.is_alive():
            raise HangsError
        results: list[T] = []
        errors: list[BaseException] = []

        def attempt() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

        # One that lived on would be in the middle of something whenever the supervisor forks.
        thread = threading.Thread(target=attempt, name="bolide-patience", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise NoThreadError from None
        self._thread = thread
        thread.join(within_s)
        if errors:
            raise errors[0]
        if not results:
            raise HangsError
        self._thread = None
        return results[0]
