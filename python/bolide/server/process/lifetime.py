"""When a worker is replaced by a fresh one: after a number of requests, a time, or growth.

This is for applications that leak memory or slowly lose what they need. How far a worker is:

| stage | what happens | then |
| --- | --- | --- |
| WITHIN | it exceeds a limit | WAITING, or OVER if its slot need not wait |
| WAITING | the delay is over | OVER |
| OVER | its turn comes, and its successor serves | it drains |
| OVER | its successor fails | WAITING, with a longer delay |

`workers.py` replaces those that are OVER, one at a time, as in a reload. Workers that exceed a
limit soon after their start are replaced with increasing delays, so that a limit that is too low
does not keep the machine busy with starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from bolide.server.kernel import rss_bytes

if TYPE_CHECKING:
    from bolide.config.settings import Settings

SAMPLE_S = 1.0
"""How often the memory of workers is read, if it is limited."""
SOON_S = 10.0
"""A worker that exceeds a limit within this time makes its slot wait."""
DELAY_S, DELAY_S_MAX = 1.0, 600.0


class Stage(Enum):
    """How far a worker that serves is on the way to its replacement."""

    WITHIN = auto()
    WAITING = auto()
    OVER = auto()


@dataclass(slots=True)
class Pause:
    """How long the workers of one slot wait before they are replaced."""

    delay_s: float = 0.0

    def after(self, served_s: float) -> float:
        """Return the delay of a worker that exceeded a limit after it had served so long.

        A worker that fits at first is never kept for longer than `SOON_S`.
        """
        if served_s >= SOON_S:
            self.delay_s = 0.0
            return 0.0
        if not served_s:
            return self.after_failure()
        delay_s = min(self.delay_s, SOON_S)
        self.after_failure()
        return delay_s

    def after_failure(self) -> float:
        """Return the delay after a successor that did not start, or would be as large at once."""
        self.delay_s = min(max(self.delay_s * 2, DELAY_S), DELAY_S_MAX)
        return self.delay_s


class Life:
    """The time in which one worker serves."""

    def __init__(self, pid: int, settings: Settings, now: float, pause: Pause) -> None:
        self.stage = Stage.WITHIN
        self.due: float | None = None
        """When `look` has something to do."""
        self._pid = pid
        self._settings = settings
        self._since = now
        self._pause = pause
        self._ends = None
        if settings.worker_lifetime_s:
            self._ends = now + settings.worker_lifetime_s
        self._plan(now)

    def look(self, now: float) -> str:
        """Do what is due; return which limit the worker has exceeded now, or ""."""
        if self.stage is Stage.WAITING and self.due is not None and self.due <= now:
            self.stage, self.due = Stage.OVER, None
        if self.stage is not Stage.WITHIN:
            return ""
        self._plan(now)
        if self._ends is not None and self._ends <= now:
            limit = as_written(
                self._settings, "worker_lifetime_s", str(self._settings.worker_lifetime_s)
            )
            return self._exceed(now, f"has served for {now - self._since:.0f} s ({limit})")
        memory_max = self._settings.worker_memory_max
        if memory_max and (used := rss_bytes(self._pid)) > memory_max:
            limit = as_written(self._settings, "worker_memory_max", f"{memory_max / 2**20:.4g}M")
            return self._exceed(now, f"uses {used / 2**20:.4g} MiB ({limit})")
        return ""

    def has_served(self, requests: int, now: float) -> str:
        """Note that it has served as many requests as it shall; return the text for the log."""
        if self.stage is not Stage.WITHIN:
            return ""
        limit = as_written(self._settings, "requests_max", str(self._settings.requests_max))
        plural = "" if requests == 1 else "s"
        return self._exceed(now, f"has served {requests} request{plural} ({limit})")

    def is_kept(self, now: float) -> float:
        """Let it serve on because its successor did not start; return for how long at least."""
        delay_s = self._pause.after_failure()
        self.stage, self.due = Stage.WAITING, now + delay_s
        return delay_s

    def _plan(self, now: float) -> None:
        times = [] if self._ends is None else [self._ends]
        if self._settings.worker_memory_max:
            times.append(now + SAMPLE_S)
        self.due = min(times, default=None)

    def _exceed(self, now: float, what: str) -> str:
        served_s = now - self._since
        delay_s = self._pause.after(served_s)
        if not delay_s:
            self.stage, self.due = Stage.OVER, None
            return f"{what}; replacing it"
        self.stage, self.due = Stage.WAITING, now + delay_s
        soon = "at its start already" if not served_s else f"within {served_s:.1f} s of its start"
        return f"{what} {soon}, so it is replaced in {delay_s:.0f} s; is the limit too low?"


def as_written(settings: Settings, option: str, value: str) -> str:
    """Return an option with its value, as the user would write it."""
    if settings.channel == "flag":
        return f"--{option.replace('_', '-')} {value}"
    return f"{option}={value}"


def requests_of_one(settings: Settings) -> int:
    """Return after how many requests a worker is to be replaced; 0 for never.

    Each has a number of its own, so that not all of them reach theirs at the same time.
    """
    if not settings.requests_max:
        return 0
    from random import randint  # only here: it imports hashes

    return settings.requests_max + randint(0, settings.requests_max_jitter)  # noqa: S311
