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


class Patience:
    """Runs one work after the other, and waits for each for a limited time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], T], within_s: float) -> T:
        """Return what `work` returns.

        Raises:
            HangsError: it has not ended within that time, or an earlier work is still running.
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

        self._thread = threading.Thread(target=attempt, name="bolide-patience", daemon=True)
        self._thread.start()
        self._thread.join(within_s)
        if errors:
            raise errors[0]
        if not results:
            raise HangsError
        self._thread = None
        return results[0]
