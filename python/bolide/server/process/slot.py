"""A worker, and the place that it has among the others.

`workers.py` has the table of the states.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from bolide.server import child, worker
from bolide.server.process.channel import channel as open_channel
from bolide.server.process.heartbeat import Heart
from bolide.server.process.jobs import in_words
from bolide.server.process.lifetime import Pause, Stage

if TYPE_CHECKING:
    from bolide import _core
    from bolide.server.process.channel import Channel
    from bolide.server.process.heartbeat import Pulse
    from bolide.server.process.lifetime import Life

KILL_AFTER_S = 1.0
"""Time for a drained worker to exit, beyond its graceful time."""
STARTUP_S = 2.0
"""Time for a startup to end that was cancelled, as it has no requests: an asynchronous one has a
second for what it closes."""
RESTART_DELAY_S, RESTART_DELAY_S_MAX = 0.1, 10.0
SERVED_DELAY_S_MAX = 0.5
"""Longest delay after a worker that has served: its place is missed, and a start may succeed."""
SERVED_S = 1.0
"""A worker that has served for so long is replaced without a longer delay than the first."""

REMEDIES = {
    errno.EAGAIN: "; is a limit of processes reached (ulimit -u, pids.max)?",
    errno.EMFILE: "; raise the limit of open files (ulimit -n, or LimitNOFILE in systemd's unit)",
}


class State(Enum):
    """What a worker does."""

    STARTING = auto()
    SERVING = auto()
    LEAVING = auto()
    DRAINING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Worker:
    """A worker process, and what the supervisor knows of it."""

    number: int
    """That of its slot, by which the log calls it."""
    seat: int | None
    """Its seat among the siblings; None if it has none."""
    generation: int
    """The reload that it belongs to."""
    job: worker.Job
    child: child.Child
    channel: Channel | None
    state: State = State.STARTING
    due: float | None = None
    """When it is killed, if it is DRAINING; replaced, if LEAVING; reported as slow, if STARTING."""
    is_cancelled: bool = False
    """Whether it is STARTING in vain, and killed when it is due."""
    counts: _core.Counts | None = None
    """Where it counts; None without metrics."""
    heart: Heart | None = None
    """By which it is noticed that it hangs; None if that is off."""
    served_from: float | None = None
    """When it began to serve; None if it has not."""
    life: Life | None = None
    """From when it is SERVING on."""
    pulse: Pulse | None = None
    """That of its heart, from when it is SERVING on."""

    @property
    def is_over(self) -> bool:
        """Whether it has exceeded a limit, and is being replaced or may be."""
        return self.life is not None and self.life.stage is Stage.OVER

    @property
    def is_late_to_serve(self) -> bool:
        """Whether it has reported that it serves when it had got TERM already."""
        is_draining = self.state is State.DRAINING
        return is_draining and self.child.is_ready and self.served_from is None

    @property
    def name(self) -> str:
        """How the log calls it."""
        return f"worker {self.number} (pid {self.child.pid})"

    def killed_at(self, now: float) -> float:
        """Return when it is killed, if it gets TERM now."""
        graceful_s = self.job.settings.graceful_timeout_ms / 1000
        if self.state is State.STARTING:  # sooner than the end of a stop, which it does not spoil
            return now + min(STARTUP_S, graceful_s / 2)
        return now + graceful_s + KILL_AFTER_S

    def cancel(self, now: float) -> None:
        """Have it killed if its startup does not end soon, because it gets TERM now."""
        if self.state is State.STARTING and not self.is_cancelled:
            self.is_cancelled, self.due = True, self.killed_at(now)

    def release(self) -> None:
        """Read the rest of its report, and release what belongs to it, because it has ended."""
        if self.channel is not None:
            os.close(self.channel.fd)
        if self.job.siblings is not None and self.seat is not None:
            self.job.siblings.clear(self.seat)
        if self.job.tally is not None and self.counts is not None:
            self.job.tally.release(self.counts)
            self.counts = None
        if self.heart is not None:
            self.heart.close()
        self.child.read_report()
        os.close(self.child.report_fd)


@dataclass(slots=True)
class Slot:
    """A place for one worker, empty until the next one is due."""

    number: int
    current: Worker | None = None
    successor: Worker | None = None
    """The one that replaces the current one, once it serves. There is none without."""
    pause: Pause = field(default_factory=Pause)
    """How long its workers wait before they are replaced because of a limit."""
    delay_s: float = 0.0
    """How long the last replacement waited."""
    due: float | None = None
    """When the next one starts."""
    awaited: Worker | None = None
    """The one that drains, and whose end is when the next one starts, if that is sooner."""

    def postpone(self, now: float, served_from: float | None) -> float:
        """Have the next worker start later; return by how many seconds.

        The delay grows with each that failed to start, or ended soon.

        Args:
            now: the time.
            served_from: when the one before began to serve; None if it has not.
        """
        longest_s = RESTART_DELAY_S_MAX if served_from is None else SERVED_DELAY_S_MAX
        has_served_long = served_from is not None and now - served_from >= SERVED_S
        is_first = has_served_long or not self.delay_s
        self.delay_s = RESTART_DELAY_S if is_first else min(self.delay_s * 2, longest_s)
        self.due = now + self.delay_s
        return self.delay_s

    def hand_over(self, others: Iterable[Slot]) -> None:
        """Give a worker that serves to one of these in which none does: this slot is left over.

        Otherwise fewer would serve until that slot's next worker has started. One that starts there
        is left over instead.
        """
        if self.current is None or self.current.state is not State.SERVING:
            return
        free = [it for it in others if it.current is None or it.current.state is State.STARTING]
        if free:
            other = min(free, key=lambda it: it.current is not None)
            self.current.number = other.number
            other.current, other.due, self.current = self.current, None, other.current

    def cannot_start(self, error: Exception) -> str:
        """Return why its worker cannot be started, with the remedy if a limit is the cause."""
        why = getattr(error, "strerror", None) or repr(error)  # the core's have only a text
        remedy = REMEDIES.get(getattr(error, "errno", 0), "")
        return f"worker {self.number} cannot start: {why}{remedy}"


def started(
    job: worker.Job,
    place: worker.Place,
    generation: int,
    close_fds: Collection[int],
    signals: Collection[int],
) -> Worker:
    """Start a worker, and return it with what belongs to it.

    Args:
        job: what it does.
        place: its number and its seat; the rest is added here.
        generation: the reload that it belongs to.
        close_fds: descriptors that it does not need.
        signals: those that the supervisor handles.

    Raises:
        Exception: it cannot be started, for whatever reason; nothing of it is left.
    """
    channel, channel_fd, heart, tally, counts = None, None, None, job.tally, None
    try:
        counts = tally.take() if tally is not None else None
        not_its_own = [*close_fds]
        if job.needs_channel:
            used = job.certificates
            channel, channel_fd = open_channel(used.generation if used else None)
            not_its_own.append(channel.fd)
        heart = Heart() if job.settings.worker_timeout_ms else None
        whole = replace(place, channel_fd=channel_fd, heart=heart)
        work = partial(worker.run, replace(job, counts=counts), whole)
        process = child.start(work, not_its_own, signals)
    except BaseException:
        if channel is not None:
            os.close(channel.fd)
        if heart is not None:
            heart.close()
        if tally is not None and counts is not None:
            tally.release(counts)
        raise
    finally:
        if channel_fd is not None:
            os.close(channel_fd)
    made = Worker(place.number, place.seat, generation, job, process, channel)
    made.counts, made.heart = counts, heart
    return made


def replaced(new: int, count: int) -> str:
    """Return how many workers a reload that has failed has replaced."""
    was = "was" if new == 1 else "were"
    return f"{new} of {in_words(count)} {was} replaced" if new else "no worker was replaced"


def outcome(serving: Collection[Worker], took_s: float) -> str:
    """Return what a reload has led to: the new application, or one that shows its error."""
    count = in_words(len(serving))
    if any("unfit" in each.child.report for each in serving):
        shows = "shows" if len(serving) == 1 else "show"
        return f"restarted in {took_s:.1f} s: {count} {shows} the error until a file changes"
    return f"reloaded in {took_s:.1f} s: {count}"
