"""The workers of a supervisor: started, replaced when they end, and rolled for a reload.

Each place for a worker (a `Slot`) has the current one and, during a reload, its successor:

| state of a worker | what happens | then |
| --- | --- | --- |
| STARTING | it reports that it serves | SERVING; the worker before it in its slot is DRAINING |
| STARTING | it reports that it fails, or leaves | it is killed soon; then as if it had ended |
| STARTING, a successor | it ends | ENDED; the reload has failed; the current one stays |
| STARTING, a successor | it takes too long | DRAINING; a reload has failed; the current one stays |
| STARTING, in an empty slot | it ends | ENDED; a reload has failed; the next one is due later |
| STARTING, in an empty slot | it takes too long | DRAINING; a reload has failed; as above |
| SERVING | it ends | ENDED; the slot is empty until the next one is due |
| SERVING | it stops serving without being asked to | LEAVING; if it ends soon, as above |
| LEAVING | it has not ended soon | DRAINING; its slot is empty until the next one is due |
| SERVING | its successor serves, or there is one slot less | DRAINING |
| SERVING | it hangs (`process/heartbeat.py`) | DRAINING for a moment; its slot is empty, as above |
| DRAINING | it ends, or its graceful time is over and it is killed | ENDED |

A reload replaces one worker after the other, so that the machine holds one more than usual. Slots
that it leaves over (`Jobs.slots`) are drained at its end: if it fails, those workers are needed.
For development (`reload`) all of them drain first, so that nothing old is served, and each has its
next one when it has ended, or soon.
Those that have exceeded a limit (`process/lifetime.py`) are replaced in the same way, each when the
one before has ended.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from bolide.errors import ConfigError, Error, StartupError
from bolide.server import capacity, logs, worker
from bolide.server.logs import logger
from bolide.server.management.counts import cause_of
from bolide.server.process.heartbeat import Pulse
from bolide.server.process.lifetime import Life, as_written
from bolide.server.process.slot import (
    RESTART_DELAY_S,
    Slot,
    State,
    Worker,
    outcome,
    replaced,
    started,
)

if TYPE_CHECKING:
    from bolide.server.process.jobs import Jobs
    from bolide.server.tls.certificates import Certificates

KILLED = "signal SIGKILL"
QUIET_ENDS = ("exit status 0", "signal SIGTERM", KILLED)
"""How a worker may end without a log line, after TERM: as requested, or killed by us."""
OUT_OF_MEMORY = "; if nobody sent it, the kernel may have (out of memory: see dmesg)"
SLOW_START_S = 10.0
"""After this time a start that has not ended is reported."""
RESTART_S = 1.0
"""Time for which the next worker waits for the one before, if files have changed."""
LEAVING_S = 1.0
"""Time for a worker to exit that has stopped serving; then it is replaced before its end."""
HUNG_S = 1.0
"""Time for a worker that hung to notice TERM; then it is killed, unless it goes on."""


class Workers:
    """As many workers as the settings of a job ask for."""

    def __init__(
        self,
        jobs: Jobs,
        selector: selectors.BaseSelector,
        signals: Collection[int],
        *,
        started: Callable[[int], None],
        reloaded: Callable[[bool], None],
        failed: Callable[[Error], None],
    ) -> None:
        """Start none yet.

        Args:
            jobs: what the workers do.
            selector: watches their reports, with what to call as data.
            signals: those that the supervisor handles.
            started: called once, when all serve for the first time, with the bytes that one
                connection can hold at most.
            reloaded: called at the end of each reload, with whether it has succeeded.
            failed: called if the first start fails.
        """
        self._jobs = jobs
        self._selector = selector
        self._signals = signals
        self._close_fds: Callable[[], Iterable[int]] = tuple
        self._started = started
        self._reloaded = reloaded
        self._failed = failed
        self._slots = [Slot(number + 1) for number in range(jobs.now.settings.workers)]
        self._draining: list[Worker] = []
        self._generation = 0
        self._rolling_since: float | None = None
        self._is_restart = False
        """Whether the last reload was a restart, in which no worker of before is left."""
        self._is_started = False
        self._is_stopping = False

    @property
    def _job(self) -> worker.Job:
        """What workers do that start from now on."""
        return self._jobs.now

    @property
    def is_started(self) -> bool:
        """Whether all of them have served at the same time."""
        return self._is_started

    @property
    def count(self) -> int:
        """How many there shall be, or were before a reload that has not ended if that is more."""
        return len(self._slots)

    def __iter__(self) -> Iterator[Worker]:
        """Yield every worker that has not ended."""
        for slot in self._slots:
            yield from (each for each in (slot.current, slot.successor) if each is not None)
        yield from self._draining

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def is_reloading(self) -> bool:
        """Whether a reload has not ended."""
        return self._rolling_since is not None

    def start(self, close_fds: Callable[[], Iterable[int]]) -> None:
        """Start the first workers; `close_fds` returns descriptors that no worker needs."""
        self._close_fds = close_fds
        for slot in self._slots:
            if not self._is_stopping:
                self._start(slot)

    def reload(self, job: worker.Job) -> None:
        """Replace every worker by one that does `job`, each when its successor serves."""
        self._jobs.begin(job)
        self._replace_all()

    def restart(self, job: worker.Job) -> None:
        """Replace every worker by one that does `job`, each when it has ended, or soon.

        Until then no client is accepted, so that none gets what was changed.
        """
        now = time.monotonic()
        if self._is_started:
            self._jobs.begin(job)
            self._generation += 1
            self._rolling_since, self._is_restart = now, True
        for slot in self._slots:
            was, successor = slot.current, slot.successor
            slot.current = slot.successor = None
            slot.delay_s, slot.awaited, slot.due = 0.0, was or slot.awaited, now
            if slot.awaited is not None:
                slot.due += RESTART_S
            for each in (was, successor):
                if each is not None:
                    self._drain(each)
        self._resize()

    def scale(self, *, is_reload: bool) -> None:
        """Have as many workers as their job says now.

        This `is_reload` if they do not fit among the siblings of those that run.
        """
        if is_reload:
            self._replace_all()
        else:
            self._resize()
            self._roll()

    def _replace_all(self) -> None:
        self._generation += 1
        self._rolling_since, self._is_restart = time.monotonic(), False
        self._give_up_starting()
        self._resize()
        for slot in self._wanted:
            if slot.current is None:  # what made the last one fail may be repaired
                slot.delay_s, slot.due = 0.0, time.monotonic()
        self._roll()

    def _give_up_starting(self) -> None:
        """End those that start, because their job has changed; others follow."""
        for slot in self._slots:
            if slot.successor is not None:
                self._drain(slot.successor)
                slot.successor = None
            elif slot.current is not None and slot.current.state is State.STARTING:
                self._drain(slot.current)
                slot.current, slot.due = None, time.monotonic()

    def _resize(self) -> None:
        """Have as many slots as the jobs need: new ones, or without those of the highest numbers.

        While a reload has not ended, those that it leaves over stay, because it may fail.
        """
        count = self._jobs.slots
        self._slots += [Slot(n + 1, due=time.monotonic()) for n in range(self.count, count)]
        for slot in self._slots[count:]:
            slot.hand_over(self._slots[:count])
            for each in (slot.current, slot.successor):
                if each is not None:
                    self._drain(each)
        del self._slots[count:]

    @property
    def _wanted(self) -> list[Slot]:
        """The slots that there are also after a reload that succeeds; no others get a worker."""
        return self._slots[: self._job.settings.workers]

    def stop(self, number: signal.Signals) -> None:
        """Start no more, and send a signal to those that there are."""
        self._is_stopping = True
        for slot in self._slots:
            slot.due = slot.awaited = None
        for each in self:
            each.cancel(time.monotonic())
        self.kill(number)

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to all of them."""
        for each in self:
            each.child.kill(number)

    def next_due(self) -> float | None:
        """Return when `do_what_is_due` has something to do, if nothing happens before."""
        times = [slot.due for slot in self._wanted] + [each.due for each in self]
        times += [each.life.due for each in self._serving() if each.life is not None]
        times += [pulse.due for _, pulse in self._watched()]
        return min((each for each in times if each is not None), default=None)

    def do_what_is_due(self, now: float) -> None:
        """Start those whose time has come, end those whose time is over, and look at the others."""
        self._start_due(now)
        for each in self:
            if each.due is not None and each.due <= now:
                each.due = None
                self._is_late(each, now)
        for each in list(self._serving()):
            if each.life is not None and each.life.due is not None and each.life.due <= now:
                self._exceeded(each, each.life.look(now))
        for each, pulse in list(self._watched()):
            if what := pulse.look(now):
                self._hangs(each, what)

    def _start_due(self, now: float) -> None:
        for slot in self._wanted:
            if slot.due is None or slot.due > now:
                continue
            if self._has_seat(slot):
                self._start(slot)
            else:
                slot.due = now + RESTART_DELAY_S  # until one that drains has ended

    def _is_late(self, each: Worker, now: float) -> None:
        """Report a slow start; kill a worker that has not drained, unless it hung and goes on."""
        if each.state is State.STARTING and not each.is_cancelled:
            self._starts_slowly(each, now)
        elif each.state is State.LEAVING:
            if not self._is_stopping:  # otherwise the end of the graceful time ends it
                self._replace_early(each, f"{each.name} has stopped serving and has not exited")
        elif each.pulse is not None and each.pulse.recovers():
            each.due = each.killed_at(now)
        else:
            is_new = each.served_from is None
            what = "ended its startup, which was cancelled" if is_new else "drained in time"
            each.child.kill(signal.SIGKILL)  # first: a logger may raise
            logger.warning("%s has not %s; killing it", each.name, what)

    def _starts_slowly(self, each: Worker, now: float) -> None:
        """Report a slow start; give one that hangs up, but not below a developer's debugger."""
        limit_ms, is_limited = each.job.settings.upgrade_timeout_ms, not self._is_restart
        ends = each.child.born + limit_ms / 1000
        if not is_limited or ends > now:
            logger.warning("%s is still importing or starting", each.name)
            each.due = ends if is_limited else None
            return
        slot = self._forget(each)
        self._drain(each)
        option = as_written(each.job.settings, "upgrade_timeout_ms", str(limit_ms))
        self._start_failed(slot, each, f"{each.name} has not started in time ({option})")
        self._roll()

    def heard(self, each: Worker) -> None:
        """Read what a worker reports: that it serves, or why it does not, or has served enough."""
        if each.state is State.ENDED:
            return  # its end was reported together with this
        if not each.child.read_report():
            return
        if each.child.is_silent:
            self._selector.unregister(each.child.report_fd)
        now = time.monotonic()
        if each.state is State.STARTING and each.child.is_ready:
            each.due = None
            self._serves(each)
        elif each.state is State.STARTING and each.child.report:  # it fails, or leaves already
            each.cancel(now)
            each.child.kill(signal.SIGTERM)
        elif each.is_late_to_serve:
            each.served_from, each.due = now, each.killed_at(now)
        if each.state is State.SERVING and "leaving" in each.child.report:
            each.state, each.due = State.LEAVING, now + LEAVING_S
        if each.state is State.SERVING and each.life is not None:
            requests = each.child.report.get("requests")
            if requests is not None:
                self._exceeded(each, each.life.has_served(requests, now))

    def send_certificates(self, used: Certificates) -> None:
        """Let the workers that use these certificates have their current generation."""
        for each in self:
            if each.channel is not None and each.job.certificates is used:
                each.channel.send(used.generation, used.in_memory)

    def send_access_logs(
        self, opened: Mapping[str, int], to: Iterable[Worker] | None = None
    ) -> None:
        """Let workers, or all, continue their access log in the files that were opened, by path."""
        for each in self if to is None else to:
            fd = opened.get(each.job.settings.access_log)
            if fd is None or each.channel is None:
                continue
            if why := each.channel.send_access_log(fd):
                logger.error("%s keeps the old access log: %s", each.name, why)

    def _asked(self, each: Worker) -> None:
        """Send a worker the access log again, if it asks for that."""
        if each.channel is None or each.state is State.ENDED:
            return
        try:
            is_asked = each.channel.asks_for_log()
        except EOFError:
            self._unwatch(each.channel.fd)
            return
        path = each.job.settings.access_log
        if is_asked and (fd := self._jobs.log_of(path)) is not None:
            self.send_access_logs({path: fd}, [each])

    def collect(self) -> None:
        """Reap those that have ended, and decide what follows."""
        for each in list(self):
            if (how := each.child.ended()) is not None:
                was, each.state = each.state, State.ENDED
                self._close(each)
                self._ended(each, was, how)
        self._roll()

    def _start(self, slot: Slot) -> None:
        """Start a worker in an empty slot, or a successor in one that has a worker."""
        slot.due = slot.awaited = None
        close_fds = [*self._close_fds(), *self._jobs.others_fds()]
        close_fds += (each.child.report_fd for each in self)
        close_fds += [each.channel.fd for each in self if each.channel is not None]
        close_fds += [each.heart.stacks_fd for each in self if each.heart is not None]
        try:
            place = worker.Place(slot.number, self._seat(), is_first=not self._is_started)
            made = started(self._job, place, self._generation, close_fds, self._signals)
        except Exception as error:  # whatever it is, the slot must not stay empty
            self._cannot_start(slot, error)
            return
        if self._is_started:
            limit_s = made.job.settings.upgrade_timeout_ms / 1000
            made.due = made.child.born + min(SLOW_START_S, limit_s)
        watched = {made.child.report_fd: self.heard}
        if made.channel is not None:
            watched[made.channel.fd] = self._asked
        for fd, act in watched.items():
            self._selector.register(fd, selectors.EVENT_READ, partial(act, made))
        if slot.current is None:
            slot.current = made
        else:
            slot.successor = made

    def _seat(self) -> int | None:
        """Return a free seat among the siblings; None if there are no siblings."""
        if self._job.siblings is None:
            return None
        taken = {each.seat for each in self if each.job.siblings is self._job.siblings}
        return next(index for index in range(self._job.seats) if index not in taken)

    def _has_seat(self, slot: Slot) -> bool:
        """Return whether another process may start: an empty slot only needs a seat of its own."""
        is_empty, own = slot.current is None, self._job.siblings
        counted = sum(not is_empty or each.job.siblings is own for each in self)
        return counted < (self._job.seats or capacity.SEATS_EACH)

    def _cannot_start(self, slot: Slot, error: Exception) -> None:
        """Try again later, unless this is the first start, which then fails."""
        what = slot.cannot_start(error)
        if not self._is_started:
            self._failed(StartupError(what))
        elif slot.current is not None:
            self._successor_failed(slot.current, what)
        else:
            self._schedule(slot, None, what)

    def _serves(self, each: Worker) -> None:
        each.state = State.SERVING
        slot = self._slots[each.number - 1]
        if slot.successor is each and slot.current is not None:
            logger.info("%s serves; pid %d drains", each.name, slot.current.child.pid)
            self._drain(slot.current)
            slot.current, slot.successor = each, None
        if self._is_stopping:
            return
        if not self._is_started and self._are_all_serving():
            self._is_started = True
            self._started(each.child.report["connection_bytes_max"])
        now = each.served_from = time.monotonic()
        each.life = Life(each.child.pid, each.job.settings, now, slot.pause)
        if each.heart is not None:
            each.pulse = Pulse(each.heart, each.child.pid, each.job.settings, now)
        self._exceeded(each, each.life.look(now))

    def _serving(self) -> Iterator[Worker]:
        """Yield the current workers that serve."""
        for slot in self._slots:
            if slot.current is not None and slot.current.state is State.SERVING:
                yield slot.current

    def _watched(self) -> Iterator[tuple[Worker, Pulse]]:
        """Yield the workers that are replaced if they hang."""
        for each in self._serving():
            if each.pulse is not None and not self._is_stopping:
                yield each, each.pulse

    def _hangs(self, each: Worker, what: str) -> None:
        """Log where a worker hangs, end it, and replace it."""
        logger.error("%s hangs: %s", each.name, what)
        self._replace_early(each, f"{each.name} gets TERM, because it hangs")
        each.due = time.monotonic() + HUNG_S

    def _replace_early(self, each: Worker, what: str) -> None:
        """Have another worker in the slot of one that is only now asked to end."""
        slot = self._forget(each)
        self._drain(each)
        self._replace(slot, each, what)

    def _exceeded(self, each: Worker, what: str) -> None:
        """Report what limit a worker has exceeded, if any, and replace it when its turn comes."""
        if what:
            logger.info("%s %s", each.name, what)
        self._roll()

    def _are_all_serving(self) -> bool:
        current = (slot.current for slot in self._wanted)
        return all(each is not None and each.state is State.SERVING for each in current)

    def _drain(self, each: Worker) -> None:
        """Let a worker finish its requests and end; one that is only starting ends."""
        each.due = each.killed_at(time.monotonic())
        each.state = State.DRAINING
        each.child.kill(signal.SIGTERM)
        self._draining.append(each)

    def _roll(self) -> None:
        """Start the next successor, if none is starting; report the end of a reload."""
        if self._is_stopping or any(slot.successor is not None for slot in self._slots):
            return
        if self._rolling_since is None:
            self._renew()
            return
        for slot in self._wanted:
            if slot.current is not None and slot.current.generation < self._generation:
                if self._has_seat(slot):
                    self._start(slot)
                return  # or when one that drains has ended
        if self._are_all_serving():
            took_s = time.monotonic() - self._rolling_since
            self._rolling_since = None
            self._jobs.complete()
            self._resize()
            logger.info(outcome(list(self._serving()), took_s))
            self._reloaded(True)
            self._renew()

    def _renew(self) -> None:
        """Start the successor of a worker that has exceeded a limit, after the one before."""
        if not self._is_started or any(each.is_over for each in self._draining):
            return
        for slot in self._slots:
            if slot.current is not None and slot.current.is_over and self._has_seat(slot):
                self._start(slot)
                return

    def _successor_failed(self, current: Worker, why: str) -> None:
        """Keep the worker that was to be replaced."""
        if self._rolling_since is not None:
            self._end_reload(why)
        elif current.life is not None:
            delay_s = current.life.is_kept(time.monotonic())
            text = "%s was not replaced and keeps serving: %s; tried again in %.0f s"
            logger.error(text, current.name, why, delay_s)

    def _end_reload(self, why: str) -> None:
        """Give a reload up: workers that start from now on do what those before it do."""
        self._rolling_since = None
        new = sum(each.generation == self._generation for each in self._serving())
        logger.error("the reload has failed: %s; %s", why, replaced(new, self.count))
        self._jobs.undo()
        self._give_up_starting()
        self._resize()
        self._reloaded(False)
        self._renew()

    def _close(self, each: Worker) -> None:
        """Release what belongs to a worker that has ended."""
        if each.channel is not None:
            self._unwatch(each.channel.fd)
        self._unwatch(each.child.report_fd)
        each.release()

    def _unwatch(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def _ended(self, each: Worker, was: State, how: str) -> None:
        is_asked = was is State.DRAINING or self._is_stopping
        if (tally := each.job.tally) is not None:
            cause = cause_of(
                how,
                is_asked=is_asked,
                is_started=was is not State.STARTING,
                has_hung=each.pulse is not None and each.pulse.has_hung,
            )
            tally.exits[cause] += 1
        if is_asked:
            self._forget(each)
            # Of several workers that fail at the first start, one is reported.
            has_failed_too = not self._is_started and "message" in each.child.report
            if how not in QUIET_ENDS and not has_failed_too:
                logger.error("%s ended: %s", each.name, how)
            return
        slot = self._forget(each)
        message = each.child.report.get("message", "")
        if message:
            logs.write_details(each.child.report.get("details", ""))
        if not self._is_started:
            message = message or f"the worker ended while it started: {how}"
            is_mistake = each.child.report.get("code") == worker.EXIT_MISTAKE
            self._failed(ConfigError(message) if is_mistake else StartupError(message))
            return
        what = f"{each.name} ended: {message or how}"
        if was is State.STARTING:
            self._start_failed(slot, each, what)
        else:
            self._replace(slot, each, what)

    def _start_failed(self, slot: Slot, each: Worker, what: str) -> None:
        """Keep the worker that was to be replaced, or try again; a reload has failed."""
        if slot.current is not None:
            self._successor_failed(slot.current, what)
            return
        is_new = each.generation == self._generation
        if is_new and self._rolling_since is not None and not self._is_restart:
            self._end_reload(what)
        if slot in self._slots:
            self._replace(slot, each, what)

    def _replace(self, slot: Slot, each: Worker, what: str) -> None:
        """Have another worker in the slot that one has left without being asked to."""
        if slot.successor is not None:
            logger.error("%s; its successor is starting", what)
            slot.current, slot.successor = slot.successor, None
        else:
            self._schedule(slot, each.served_from, what)

    def _forget(self, each: Worker) -> Slot:
        """Remove a worker that has ended; return its slot, or an empty one."""
        if each in self._draining:
            self._draining.remove(each)
            for slot in self._slots:
                if slot.awaited is each:
                    slot.awaited, slot.due = None, time.monotonic()
            return Slot(each.number)
        slot = self._slots[each.number - 1]
        if slot.current is each:
            slot.current = None
        else:
            slot.successor = None
        return slot

    def _schedule(self, slot: Slot, served_from: float | None, what: str) -> None:
        """Schedule the next worker; `served_from` is when the one before began to serve."""
        then = f"the next one starts in {slot.postpone(time.monotonic(), served_from):.1f} s"
        if slot.number > self._job.settings.workers:
            then = "another one starts only if the reload fails"
        logger.error("%s; %s%s", what, then, OUT_OF_MEMORY if what.endswith(KILLED) else "")
