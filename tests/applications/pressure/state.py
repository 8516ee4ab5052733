"""What the three applications of this folder share."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
import warnings

PART = b"p" * 65_536
TICK_S = 0.05

seen = {"held": 0, "blocked": 0}
"""What tests may ask for: how many requests have begun to wait for a release, or have blocked."""


def block_thread(milliseconds: int) -> None:
    """Block the thread, and count that."""
    time.sleep(milliseconds / 1000)
    seen["blocked"] += 1


class Pulse:
    """A timer of the event loop, and the most calls that blocked it between two of its beats.

    They are counted, because a stalled machine is late without them.
    """

    def __init__(self) -> None:
        self._last = 0
        self._gap_max = 0

    def beat(self) -> None:
        """Note the calls since the last beat, and ask for the next."""
        self._note()
        asyncio.get_running_loop().call_later(TICK_S, self.beat)

    def take_gap_max(self) -> int:
        """Return the most calls between two beats, and begin anew."""
        self._note()
        gap_max, self._gap_max = self._gap_max, 0
        return gap_max

    def _note(self) -> None:
        self._gap_max = max(self._gap_max, seen["blocked"] - self._last)
        self._last = seen["blocked"]


def fork() -> int:
    """Fork a process that does nothing for a long time; return its id."""
    with warnings.catch_warnings():
        # Python warns of threads from 3.12 on.
        warnings.simplefilter("ignore")
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    assert child.pid is not None
    return child.pid
