"""Notices a worker that hangs, and reads where: the Python stacks of all its threads.

A thread of the worker counts, and lets the event loop count, several times within
`worker_timeout_ms`. The supervisor looks at the counters as often. If that of the loop stays, the
loop is blocked; if that of the thread stays too, nothing else gets the interpreter (GIL). A third
counter stays while every thread of a WSGI application runs a view for which no client waits any
more: nothing else is served then. How far the supervisor is with a worker:

| stage | what happens | then |
| --- | --- | --- |
| COUNTING | a counter has not changed in `LOOKS` looks | ASKED: a signal asks for the stacks |
| ASKED | the stacks are complete, or do not come | HUNG: they are logged, and it gets TERM |
| HUNG | the loop counts again before the worker is killed | RECOVERED: it drains as others do |

Looks are counted instead of time, because time also passes while a machine is suspended, when the
first look finds nothing new. A worker that is stopped (SIGSTOP, a debugger) is not looked at.

faulthandler writes the stacks in its handler of the signal, which needs no interpreter, to a file
in memory that both processes have, so that neither ever waits for the other.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
from _thread import start_new_thread  # libraries replace that of `threading`
from collections.abc import Callable, Collection
from enum import Enum, auto
from time import sleep
from typing import TYPE_CHECKING

from bolide import _core
from bolide.server.kernel import is_stopped
from bolide.server.logs import logger
from bolide.server.process.lifetime import as_written

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from bolide.config.settings import Settings
    from bolide.server.child import Child
    from bolide.server.process.slot import Worker

LOOKS = 8
"""How often a worker counts, and is looked at, within its time."""
STACKS_SIGNAL = signal.SIGRTMAX
"""Asks for the stacks: applications and libraries use the signals that have names."""
STACKS_BYTES_MAX = 1 << 16
"""As much of them is logged: a quarter of what standard error queues."""
STACKS_LOOK_S = 0.1
"""How often the file is looked at; it is complete when it has not grown in this time."""
LATE_STACKS_S = 0.2
"""Time for that at the end of the graceful time, when the supervisor does nothing else."""
STACKS_S_MAX = 2.0
"""Time for a worker to write them, which takes milliseconds of a processor."""
START = f'  File "{os.path.dirname(os.path.dirname(__file__))}/child.py"'
"""The frame that a worker starts in: those below it are the supervisor's, of before the fork."""
LOOP, THREAD, VIEWS = range(3)


class Heart:
    """What a worker shares with its supervisor: its counters, and the file for its stacks."""

    def __init__(self) -> None:
        """Create it before the fork.

        Raises:
            OSError: there is no memory or descriptor left.
        """
        self._counters = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self.stacks_fd = os.memfd_create("bolide-stacks")
        self._is_asked = False
        self._is_stuck: Callable[[], bool] = bool

    def beat(
        self, loop: AbstractEventLoop, timeout_ms: int, is_stuck: Callable[[], bool] = bool
    ) -> None:
        """Count from now on, in a worker that serves in this loop.

        `is_stuck` returns whether no thread is left for the application's views.
        """
        self._is_stuck = is_stuck
        faulthandler.register(STACKS_SIGNAL, self.stacks_fd, all_threads=True, chain=False)
        _core.widen_signal_stack()  # on the one of faulthandler few handlers fit at once
        try:
            start_new_thread(self._count, (loop, timeout_ms / 1000 / LOOKS))
        except RuntimeError:
            logger.warning("no thread is left for the heartbeat: worker_timeout_ms has no effect")
        else:
            self._counters[LOOP] += 1

    @property
    def counts(self) -> bool:
        """Whether the worker has begun to count."""
        return self._counters[LOOP] > 0

    def ask(self, worker: Child) -> int:
        """Ask for the stacks of a worker that counts; return where in the file they will start."""
        size = os.fstat(self.stacks_fd).st_size
        worker.kill(STACKS_SIGNAL)
        return size

    def stacks(self, start: int = 0) -> str:
        """Return the stacks that were written from `start` on; "" if there are none."""
        written = os.pread(self.stacks_fd, STACKS_BYTES_MAX, start).decode(errors="replace")
        return _without_start(written)

    def read(self) -> tuple[int, int, int]:
        """Return the counters of loop, thread and views; zeros if they do not count."""
        return self._counters[LOOP], self._counters[THREAD], self._counters[VIEWS]

    def close(self) -> None:
        """Close the file."""
        os.close(self.stacks_fd)

    def _count(self, loop: AbstractEventLoop, every_s: float) -> None:
        while True:
            try:
                self._ask(loop)
            except MemoryError:  # without this thread, the worker would seem to hang
                self._is_asked = False
            sleep(every_s)

    def _ask(self, loop: AbstractEventLoop) -> None:
        self._counters[THREAD] += 1
        if not self._is_asked:
            self._is_asked = True
            try:
                loop.call_soon_threadsafe(self._turned)
            except RuntimeError:  # it is closed; the worker ends, or hangs in its last steps
                pass

    def _turned(self) -> None:
        self._is_asked = False
        self._counters[LOOP] += 1
        if not self._is_stuck():
            self._counters[VIEWS] += 1


class Stage(Enum):
    """How far the supervisor is with a worker that may hang."""

    COUNTING = auto()
    ASKED = auto()
    HUNG = auto()
    RECOVERED = auto()


class Pulse:
    """What the supervisor makes of one worker's heart."""

    def __init__(self, heart: Heart, pid: int, settings: Settings, now: float) -> None:
        self.stage = Stage.COUNTING
        self._heart = heart
        self._pid = pid
        self._limit = as_written(settings, "worker_timeout_ms", str(settings.worker_timeout_ms))
        self._every_s = settings.worker_timeout_ms / 1000 / LOOKS
        self.due: float | None = now + self._every_s
        """When `look` has something to do."""
        self._seen = heart.read()
        self._since = now
        self._looks = 0
        """How many have found the same count of the loop, or of the views."""
        self._loop_looks = self._thread_looks = 0
        """How many of them that of the loop, and that of the thread too."""
        self._stacks_from = 0
        """Where those that were asked for start in the file: somebody may have asked before."""
        self._stacks_bytes = 0
        self._stacks_until = 0.0

    @property
    def has_hung(self) -> bool:
        """Whether the worker is replaced because it hung."""
        return self.stage in (Stage.HUNG, Stage.RECOVERED)

    def look(self, now: float) -> str:
        """Do what is due; return how the worker hangs and where, if that is known now, or ""."""
        if self.due is None or self.due > now:
            return ""
        if self.stage is Stage.ASKED:
            return self._read_stacks(now)
        self.due = now + self._every_s
        seen, before = self._heart.read(), self._seen
        self._seen = seen
        turns, goes_on = seen[LOOP] != before[LOOP], seen[VIEWS] != before[VIEWS]
        if (turns and goes_on) or not seen[LOOP] or is_stopped(self._pid):
            self._since, self._looks, self._loop_looks, self._thread_looks = now, 0, 0, 0
            return ""
        self._looks += 1
        self._loop_looks = 0 if turns else self._loop_looks + 1
        self._thread_looks = 0 if seen[THREAD] != before[THREAD] else self._thread_looks + 1
        if self._looks > LOOKS:
            self.stage, self.due = Stage.ASKED, now + STACKS_LOOK_S
            self._stacks_until = now + STACKS_S_MAX
            self._stacks_from = self._stacks_bytes = os.fstat(self._heart.stacks_fd).st_size
            os.kill(self._pid, STACKS_SIGNAL)
        return ""

    def recovers(self) -> bool:
        """Return whether it counts again after it hung; only once."""
        if self.stage is Stage.HUNG and self._heart.read()[LOOP] != self._seen[LOOP]:
            self.stage = Stage.RECOVERED
            return True
        return False

    def _read_stacks(self, now: float) -> str:
        size = os.fstat(self._heart.stacks_fd).st_size
        is_complete = size > self._stacks_from and size == self._stacks_bytes
        self._stacks_bytes = size
        if not is_complete and now < self._stacks_until:
            self.due = now + STACKS_LOOK_S
            return ""
        self.stage, self.due = Stage.HUNG, None
        self._seen = self._heart.read()
        what = "its event loop has been blocked"
        if self._loop_looks <= LOOKS // 2:
            what = "all its threads have been occupied by views whose clients have left or got 503,"
        if self._thread_looks > LOOKS // 2:
            what = "its interpreter (GIL) has been held, and not released,"
        stacks = self._heart.stacks(self._stacks_from)
        shown = f"; its threads:\n{stacks}" if stacks else "; its stacks cannot be read"
        return f"{what} for {now - self._since:.1f} s ({self._limit}){shown}"


def log_late(workers: Collection[Worker]) -> None:
    """Log that the graceful time of workers is over, and what their threads do, if they say so."""
    logger.warning("the graceful time is over; killing %d worker(s)", len(workers))
    asked = [(each, each.heart) for each in workers if each.heart is not None]
    # Before it counts, a worker has no handler for the signal.
    counting = [(each, heart, heart.ask(each.child)) for each, heart in asked if heart.counts]
    if counting:
        sleep(LATE_STACKS_S)
    for each, heart, start in counting:
        if stacks := heart.stacks(start):
            logger.warning("%s has not ended; its threads:\n%s", each.name, stacks)


def _without_start(stacks: str) -> str:
    """Leave out the frames of before the fork, which are the same in every worker."""
    kept: list[str] = []
    is_before = False
    for line in stacks.splitlines():
        is_before = line.startswith(START) or (is_before and line.startswith("  "))
        if not is_before:
            kept.append(line)
    return "\n".join(kept).rstrip()
