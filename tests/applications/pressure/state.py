"""What the three applications of this folder share."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
import warnings

PART = b"p" * 65_536
TICK_S = 0.05

seen = {"held": 0}
"""What tests may ask for: how many requests have begun to wait for a release."""


class Pulse:
    """A timer of the event loop, and the longest time that it was late."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._gap_max_s = 0.0

    def beat(self) -> None:
        """Note the time since the last beat, and ask for the next."""
        self._note()
        asyncio.get_running_loop().call_later(TICK_S, self.beat)

    def take_gap_max_s(self) -> float:
        """Return the longest time between two beats, and begin anew."""
        self._note()
        gap_max_s, self._gap_max_s = self._gap_max_s, 0.0
        return gap_max_s

    def _note(self) -> None:
        now_s = time.monotonic()
        self._gap_max_s = max(self._gap_max_s, now_s - self._last_s)
        self._last_s = now_s


def fork() -> int:
    """Fork a process that does nothing for a long time; return its id."""
    with warnings.catch_warnings():
        # Python warns of threads from 3.12 on.
        warnings.simplefilter("ignore")
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    assert child.pid is not None
    return child.pid
