"""The parent of the workers: owns the listening sockets, handles signals, reads what may change.

It runs no application code and no event loop, and a thread only to read certificates. One worker
and many take the same path. It waits in one call for a pipe to which signals are written, and for
the pipes to which starting workers report (`workers.py`). It also wakes when something is due: a
restart, a deadline, a look at the workers (`worker_timeout_ms`).

USR1 opens the access log again, for all workers. USR2 starts a new process that takes over
(`process/upgrade.py`). HUP reads the configuration and the certificates again, opens the access log
again, and replaces the workers one after the other (`reload.py` says what can change).

Exit codes of the command: 0 after a requested stop, 1 if a second signal cut it short, 2 if the
first start failed because of a user's mistake (options, address, import), 3 if it failed in the
application's startup or for another reason. A worker that ends later is replaced, with increasing
delays.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from bolide.config import proxies
from bolide.errors import ConfigError, Error
from bolide.server import (
    capacity,
    child,
    forked,
    listener,
    logs,
    loop,
    memory,
    stderr,
    systemd,
    worker,
)
from bolide.server.development import disclosure
from bolide.server.development.watch import Watch
from bolide.server.logs import logger
from bolide.server.management import pages
from bolide.server.management.outcomes import COMPLETED, FAILED, Outcomes
from bolide.server.process import handover, heartbeat, preload, signals, takeover, upgrade
from bolide.server.process.access_log import open_access_log
from bolide.server.process.jobs import Jobs, in_words, with_siblings
from bolide.server.process.origin import Origin
from bolide.server.process.phase import Course, Event, Phase, When
from bolide.server.process.pid_file import PidFile
from bolide.server.process.sockets import Sockets
from bolide.server.reload import job_of_now
from bolide.server.tls import certificates
from bolide.server.workers import Workers

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application

EXIT_CUT_SHORT = 1
ONE_STOP_S = 0.5
"""Signals within this time are one stop: a terminal and the program that runs the server both send
one, as does timeout(1) alone."""
INIT_PID = 1
"""The process that gets the children of those that end, such as a container's first one."""
KILL_AGAIN_S = 10.0
WAIT_S_MAX = 86_400.0
"""poll(2) takes no more than 24 days."""
WHAT = {Phase.STARTING: "start", Phase.RELOADING: "reload", Phase.UPGRADING: "upgrade"}
WHY_NOT = {
    Phase.STARTING: "the server is starting",
    Phase.UPGRADING: "another process is taking over",
    Phase.ENDING: "the server is stopping",
}
SLOW_START_S = 10.0
"""After this time a start that has not ended is reported: the module may run a server itself."""


class Supervisor:
    """Workers for one application, from the first start to the last exit."""

    def __init__(
        self,
        source: Application | str,
        settings: Settings,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        """Bind the addresses and open what the workers need.

        Args:
            source: the application, or the target that names it.
            settings: the options.
            reread: returns the options as they are now, for a reload; they stay without it.
        """
        self._actions, self._reread = self._actions_of_signals(), reread
        self._name = source if isinstance(source, str) else "app"
        self._course, self._selector = Course(), selectors.PollSelector()  # has no descriptor
        self._exit_code, self._ends_process = 0, False
        self._failure: Error | None = None
        self._slow_from: float | None = None  # when the first start is reported as slow
        self._deadline: float | None = None
        """The end of the graceful time, once stopping has started."""
        self._reloads, self._upgrade_results = Outcomes(), Outcomes()
        self._began_unix_s, self._has_reopened_logs = time.time(), False
        """Whether USR1 came since the upgrade has begun."""
        self._inherited = takeover.inherited(os.environ, settings.scheme)
        """What an old process has passed to this one."""
        self._origin = Origin.of_this_process()  # of variables that were corrected by that
        self._systemd = systemd.Notifications(os.environ, is_service=self._inherited is None)
        as_old = upgrade.Actions(self._hand_over, self._left_to_do, self._leave, self._not_upgraded)
        self._upgrades = upgrade.Upgrades(self._selector, as_old)
        as_new = takeover.Actions(self._prepare, self._become_service, self._not_taken_over)
        self._takeover = takeover.of(self._inherited, self._selector, as_new)
        self._pid_file = PidFile(settings.pid_file)
        self._second_from: float | None = None
        """When a signal to stop is a second one; None until there was a first one."""
        self._watch = Watch(settings, source)
        capacity.raise_descriptor_limit(settings)
        loop_name = loop.choose(settings.loop)
        with ExitStack() as opened:
            if (access_log_fd := open_access_log(settings.access_log)) is not None:
                opened.callback(os.close, access_log_fd)
            read = certificates.Certificates(settings) if settings.pairs else None
            self._sockets = Sockets(settings, self._inherited)
            opened.callback(self._sockets.close)
            lifeline_fd, self._lifeline_write_fd = lifeline = os.pipe()
            for fd in lifeline:
                opened.callback(os.close, fd)
            forked.keep_from(self._fds_of_service, lifeline_fd)
            opened.callback(forked.keep_nothing)
            first = worker.Job(
                preload.preloaded(source, settings),
                settings,
                loop_name,
                listeners=self._sockets.served,
                access_log_fd=access_log_fd,
                lifeline_fd=lifeline_fd,
                certificates=read,
                redirecting=self._sockets.redirecting,
                tally=self._sockets.management.tally,
            )
            self._jobs = Jobs(with_siblings(first))
            opened.pop_all()
        self._workers = Workers(
            self._jobs,
            self._selector,
            self._actions,
            started=self._announce,
            reloaded=self._reloaded,
            failed=self._fail,
        )

    def _actions_of_signals(self) -> dict[int, Callable[[], None]]:
        """Return what each signal does."""
        actions: dict[int, Callable[[], None]] = {
            **dict.fromkeys(signals.DRAINS, self._stop),
            signal.SIGQUIT: self._stop_now,
            signal.SIGCHLD: self._collect,
            signal.SIGHUP: self._reload,
            signal.SIGUSR1: self._reopen_log,
            signal.SIGUSR2: self._upgrade,
            **{number: partial(signals.ignore, number) for number in signals.IGNORED},
        }
        if not signals.has_terminal():
            actions[signal.SIGTTIN] = partial(self._scale, 1)
            actions[signal.SIGTTOU] = partial(self._scale, -1)
        return actions

    @property
    def _settings(self) -> Settings:
        return self._jobs.now.settings

    @property
    def _certificates(self) -> certificates.Certificates | None:
        return self._jobs.now.certificates

    def _manage(self) -> None:
        """Open the management listener, if there is one."""
        management = self._sockets.management
        if (tally := management.tally) is None:
            return
        server = pages.Server(
            workers=self._workers,
            tally=tally,
            name=lambda: self._name,
            settings=lambda: self._settings,
            phase=lambda: self._course.phase,
            reload=self._reload,
            stop=self._stop,
            upgrade=self._upgrade,
            upgrade_hindrance=partial(upgrade.hindrance, self._origin),
            reloads=self._reloads,
            upgrades=self._upgrade_results,
            began_unix_s=self._began_unix_s,
            took_over=self._inherited,
        )
        management.open(self._selector, server)

    def run(self, *, ends_process: bool = False) -> int:
        """Serve until a signal stops it; return the exit code.

        Afterwards signals have the handlers of before. If the caller `ends_process`, they are
        ignored instead, since a signal that repeats the stop must not change the exit code.

        Raises:
            ConfigError: the first start failed because of a user's mistake.
            StartupError: it failed in the application's startup, or the worker died.
        """
        self._ends_process = ends_process
        child.flush_output()  # otherwise each worker would have a copy
        handling = signals.written_to_a_pipe(self._actions, ends_process=ends_process)
        with handling as self._signal_fds:
            self._selector.register(self._signal_fds[0], selectors.EVENT_READ, self._act)
            try:
                if self._inherited is None:  # otherwise that of the old process is still valid
                    self._pid_file.create()
                    self._manage()
                self._watch_files()
                self._workers.start(self._own_fds)
                self._slow_from = time.monotonic() + SLOW_START_S
                while not self._course.is_ending or self._workers:
                    self._wait()
            finally:
                self._workers.kill(signal.SIGKILL)
                self._close()
        if self._failure is not None:
            raise self._failure
        logger.info("stopped")
        return self._exit_code

    def _own_fds(self) -> list[int]:
        """Return the descriptors that no worker needs."""
        own = [self._lifeline_write_fd, *self._signal_fds, *self._sockets.management.fds()]
        return own + [*self._watch.fds(), *self._handover_fds()]

    def _fds_of_service(self) -> list[int]:
        """Return the descriptors that show that this process lives, and occupy its addresses."""
        sockets, own = self._sockets, [self._lifeline_write_fd, *self._handover_fds()]
        return [*own, *sockets.served_fds(), *sockets.management.bound_fds()]

    def _handover_fds(self) -> list[int]:
        """Return the descriptors by which an upgrade notices that this process ends."""
        takeover = self._takeover.fds() if self._takeover is not None else []
        return [*self._upgrades.fds(), *takeover]

    def _watch_files(self) -> None:
        """Start to watch the files, in a process that needs no socket."""
        close_fds = [*self._own_fds(), *self._sockets.served_fds()]
        fd = self._jobs.now.lifeline_fd
        self._watch.open(self._selector, self._changed, close_fds, fd, self._actions)

    def _changed(self) -> None:
        """Restart the workers, because files have changed."""
        if self._course.phase is Phase.STARTING:
            self._workers.restart(self._jobs.now)
        else:
            self._reload()

    def _act(self) -> None:
        """Act on the signals that have come."""
        for number in signals.read(self._signal_fds[0]):
            _attempt(self._actions.get(number, signals.pass_over))

    def _close(self) -> None:
        forked.keep_nothing()
        close_lifeline = partial(os.close, self._lifeline_write_fd)
        ends = (self._watch.close, self._upgrades.close, self._pid_file.remove)
        for end in (*ends, self._sockets.close, self._jobs.close, close_lifeline):
            _attempt(end)

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._wait_s()):
            _attempt(key.data)
        _attempt(partial(self._do_what_is_due, time.monotonic()))

    def _wait_s(self) -> float | None:
        times = [self._workers.next_due(), self._deadline, self._slow_from, self._systemd.due]
        times += [self._sockets.management.due, self._upgrades.due]
        times += [self._takeover.due] if self._takeover is not None else []
        if self._certificates is not None and not self._course.is_ending:
            times.append(self._certificates.next_look)
        due = min((each for each in times if each is not None), default=None)
        wait_s = None if due is None else min(max(0.0, due - time.monotonic()), WAIT_S_MAX)
        if (own := stderr.installed()) is None or own.retry():
            return wait_s
        return stderr.RETRY_S if wait_s is None else min(wait_s, stderr.RETRY_S)

    def _do_what_is_due(self, now: float) -> None:
        """Do what is due; what fails of it does not keep the rest from being done."""
        for part in (self._workers, self._sockets.management, self._upgrades, self._takeover):
            if part is not None:
                _attempt(partial(part.do_what_is_due, now))
        if self._systemd.due is not None and self._systemd.due <= now:
            self._systemd.watch()
        if self._certificates is not None and self._certificates.next_look <= now:
            self._certificates.look()
            self._workers.send_certificates(self._certificates)
        if self._slow_from is not None and self._slow_from <= now:
            self._slow_from = None
            if not self._workers.is_started and not self._course.is_ending:
                remedy = 'put the call under `if __name__ == "__main__":`'
                text = "still importing or starting %s: if it calls app.run(), %s"
                logger.warning(text, self._name, remedy)
        if self._deadline is not None and self._deadline <= now and self._workers:
            self._deadline = now + KILL_AGAIN_S
            if not self._watch.is_on:  # a developer's Ctrl-C is no failure
                self._exit_code = EXIT_CUT_SHORT
            try:
                heartbeat.log_late(list(self._workers))  # which may raise, as a logger may
            finally:
                self._workers.kill(signal.SIGKILL)

    def _collect(self) -> None:
        """Reap what has ended; an error with one kind of process leaves no zombie of another."""
        for collect in (self._workers.collect, self._collect_watch, self._upgrades.collect):
            _attempt(collect)
        if self._ends_process and os.getpid() == INIT_PID:
            child.reap_orphans({each.child.pid for each in self._workers} | self._watch.pids())

    def _collect_watch(self) -> None:
        if self._watch.has_ended():
            self._watch_files()

    def _fail(self, error: Error) -> None:
        """Stop, because the first start has failed."""
        self._failure = error
        self._stop()

    def _reload(self) -> None:
        """Read the options and the certificates again, and replace the workers."""
        when = self._course.when(Event.RELOAD)
        if when is When.NEVER:
            self._refuse(signal.SIGHUP)
            return
        if when is When.LATER:
            logger.info("the reload begins when the %s has ended", WHAT[self._course.phase])
            return
        self._systemd.reloading()
        number = self._reloads.begin()
        try:
            job = job_of_now(self._jobs.now, self._reread)
        except (Error, OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or error  # the core's have only a text
            logger.error("cannot reload: %s; keeping the current workers", why)
            self._not_reloaded(number)
            return
        except Exception:
            self._not_reloaded(number)
            raise
        self._course.enter(Event.RELOAD)
        trusted_before = proxies.described(self._settings)
        if job.certificates is not None:  # it may be the one of before, which was read again
            self._workers.send_certificates(job.certificates)
        logger.info("reloading: replacing %s", in_words(self._workers.count))
        self._sockets.report_lost_files()
        if (trusted := proxies.described(job.settings)) != trusted_before:
            logger.info(trusted)
        if why := preload.hindrance(job):
            logger.info("the application is not imported again, because %s", why)
        if self._watch.is_on:
            self._workers.restart(job)
        else:
            self._workers.reload(job)

    def _not_reloaded(self, number: int) -> None:
        """Report a reload that has changed nothing. One that has begun before it goes on."""
        self._reloads.fail(number)
        if self._course.phase is Phase.SERVING:
            self._notify_ready()

    def _reloaded(self, has_succeeded: bool) -> None:
        """Report the end of a reload."""
        self._course.enter(Event.RELOADED)
        self._reloads.end(COMPLETED if has_succeeded else FAILED)
        self._notify_ready()
        try:
            if not has_succeeded:
                logs.configure(*self._settings.logging)
        except Error as error:
            logger.error("the logs are not configured as before the reload: %s", error)
        self._begin_what_waits()

    @property
    def _status(self) -> str:
        return f"serving {self._name} ({in_words(self._workers.count)})"

    def _notify_ready(self) -> None:
        self._systemd.ready(self._status)

    def _refuse(self, number: signal.Signals) -> None:
        """Report a signal that has no effect now."""
        logger.info("%s is ignored: %s", number.name, WHY_NOT[self._course.phase])

    def _begin_what_waits(self) -> None:
        """Begin what was accepted for the end of what has ended now."""
        actions = {Event.RELOAD: self._reload, Event.UPGRADE: self._upgrade}
        if (later := self._course.take_later()) is not None:
            actions[later]()

    def _reopen_log(self) -> None:
        """Continue the access log in the file that has its name now, after a rotation."""
        self._has_reopened_logs = True  # a new process may have opened the old file
        if not self._settings.has_log_file:
            logger.info("SIGUSR1 is ignored: no log is written to a file (access_log)")
            return
        try:
            opened = self._jobs.reopen_logs()
        except ConfigError as error:
            logger.error("the access log was not opened again, and the old file is used: %s", error)
            return
        self._workers.send_access_logs(opened)
        logger.info("the access log %s was opened again", self._settings.access_log)

    def _upgrade(self) -> None:
        """Start a new process that takes over; this one goes on if that fails."""
        if hindrance := upgrade.hindrance(self._origin):
            logger.warning("SIGUSR2 is ignored: %s", hindrance)
            return
        when = self._course.when(Event.UPGRADE)
        if when is When.LATER:
            logger.info("the upgrade begins when the %s has ended", WHAT[self._course.phase])
        elif when is When.NEVER:
            self._refuse(signal.SIGUSR2)
        else:
            self._begin_upgrade()

    def _begin_upgrade(self) -> None:
        number = self._upgrade_results.begin()
        given = upgrade.Given(self._origin, self._sockets, number, self._began_unix_s)
        self._has_reopened_logs = False
        if self._upgrades.start(given, upgrade.patience(self._settings)):
            self._course.enter(Event.UPGRADE)
            self._systemd.reloading()
        else:
            self._upgrade_results.fail(number)
            self._begin_what_waits()

    def _hand_over(self, pid: int) -> str:
        """Let systemd know the new process; return why that is not possible, or ""."""
        return self._systemd.hand_over(pid, self._status)

    def _left_to_do(self) -> list[str]:
        """Return what came too late for the new process to have done it at its start."""
        found = [handover.REOPEN] if self._has_reopened_logs else []
        return found + ([handover.RELOAD] if self._course.waits(Event.RELOAD) else [])

    def _leave(self) -> None:
        """Drain, because the new process has taken over."""
        self._upgrade_results.end(COMPLETED)
        try:
            self._sockets.leave()
        finally:
            self._drain()  # which is no signal: the first may also be meant for the new process

    def _not_upgraded(self) -> None:
        """Go on, because the new process has ended."""
        self._upgrade_results.end(FAILED)
        if self._course.phase is not Phase.UPGRADING:
            return
        self._course.enter(Event.NOT_UPGRADED)
        try:
            self._pid_file.keep()
        except ConfigError as error:
            logger.error("%s", error)
        self._notify_ready()
        self._begin_what_waits()

    def _prepare(self) -> str:
        """Write the pid file, before the old process leaves; return why that is not possible."""
        try:
            self._pid_file.write()
        except ConfigError as error:
            return str(error)
        return ""

    def _not_taken_over(self, why: str) -> None:
        """Stop, because the old process goes on."""
        if not self._course.is_ending:
            self._failure = ConfigError(f"this process has not taken over: {why}")
            self._drain()

    def _scale(self, step: int) -> None:
        """Have one worker more or less than now, until the next reload."""
        count = self._settings.workers + step
        if self._course.when(Event.SCALE) is When.NEVER:
            self._refuse(signal.SIGTTIN if step > 0 else signal.SIGTTOU)
        elif count < 1:
            logger.info("SIGTTOU is ignored: there is only one worker")
        else:
            is_reload = not self._jobs.has_seats(count)
            try:
                self._jobs.resize(count)
            except (ConfigError, OSError, MemoryError) as error:
                why = getattr(error, "strerror", None) or error
                logger.error("cannot have %s: %s", in_words(count), why)
                return
            logger.info("now running %s", in_words(count))
            if is_reload:
                self._course.enter(Event.RELOAD)
                self._reloads.begin()
            self._workers.scale(is_reload=is_reload)

    def _announce(self, connection_bytes_max: int) -> None:
        """Become the service, or offer that to the old process, because all workers serve."""
        self._slow_from = None
        _attempt(partial(self._describe, connection_bytes_max))
        if self._takeover is None:
            self._become_service(frozenset())
        else:
            self._takeover.serves()

    def _describe(self, connection_bytes_max: int) -> None:
        for line in capacity.shortfalls(self._settings):
            logger.warning(line)
        logger.info(memory.described(self._settings, connection_bytes_max))
        logger.info(proxies.described(self._settings))
        if self._settings.debug:
            logger.warning(disclosure.WARNING)

    def _become_service(self, left_to_do: frozenset[str]) -> None:
        """Serve as the only supervisor, and do what the one before was asked for at the end."""
        self._course.enter(Event.STARTED)
        if self._inherited is None:
            self._notify_ready()
        else:
            self._sockets.take_files(self._inherited)
            _attempt(self._manage)
            self._systemd.become_service()
        if self._sockets.redirecting:
            addresses = ", ".join(each.address.url for each in self._sockets.redirecting)
            logger.info("redirecting %s to https", addresses)
        # Last: when this line appears, everything else has been logged.
        processes = f"{in_words(self._workers.count)}, pid {os.getpid()}"
        listener.announce(self._name, self._sockets.served, processes)
        if handover.REOPEN in left_to_do:
            _attempt(self._reopen_log)
        if handover.RELOAD in left_to_do:
            _attempt(self._reload)
        self._begin_what_waits()

    def _stop_now(self) -> None:
        """Stop without letting anything finish."""
        logger.warning("stopping now; killing %d worker(s)", len(self._workers))
        self._exit_code = EXIT_CUT_SHORT
        if not self._course.is_ending:
            self._begin_to_stop(signal.SIGKILL)
        else:
            self._workers.kill(signal.SIGKILL)

    def _stop(self) -> None:
        """Drain and stop; the second time, stop now."""
        now = time.monotonic()
        if self._second_from is not None:
            if now >= self._second_from:
                self._stop_now()
            return
        self._second_from = now + ONE_STOP_S
        if not self._course.is_ending:
            self._drain()
        else:
            logger.info("stopping already; a second signal stops now")

    def _drain(self) -> None:
        """Let the workers finish what they have begun, and stop."""
        what = "the application's startup is cancelled"
        if self._workers.is_started:
            left_s = worker.drain_s(self._settings.graceful_timeout_ms / 1000)
            what = f"requests in flight have up to {left_s:.3g} s to finish"
        if self._failure is None:
            logger.info("stopping: %s; a second signal stops now", what)
        self._begin_to_stop(signal.SIGTERM)

    def _begin_to_stop(self, number: signal.Signals) -> None:
        """Start no more workers, send a signal to those there are, and refuse connections."""
        now = time.monotonic()
        self._course.enter(Event.STOP)
        self._systemd.stopping()
        self._deadline = now + self._settings.graceful_timeout_ms / 1000
        self._workers.stop(number)  # before anything that may fail
        self._watch.close()
        self._upgrades.stop(number)
        if self._takeover is not None:
            self._takeover.stop()
        self._sockets.refuse()


def _attempt(action: Callable[[], object]) -> None:
    """Act; what is not expected is logged, since it must not end the server."""
    try:
        action()
    except Exception:
        logger.exception("unexpected error in the supervisor; continuing")
