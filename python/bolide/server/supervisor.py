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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bolide.config import proxies
from bolide.errors import ConfigError, Error
from bolide.server import (
    capacity,
    child,
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
from bolide.server.management.management import Management
from bolide.server.management.outcomes import COMPLETED, FAILED, Outcomes
from bolide.server.process import preload, signals, upgrade
from bolide.server.process.access_log import open_access_log
from bolide.server.process.jobs import Jobs, in_words, with_siblings
from bolide.server.process.phase import Course, Event, Phase, When
from bolide.server.process.pid_file import PidFile
from bolide.server.process.socket_access import SocketAccess
from bolide.server.reload import job_of_now
from bolide.server.tls import certificates
from bolide.server.workers import Workers

if TYPE_CHECKING:
    from bolide.config.address import Address
    from bolide.config.settings import Settings
    from bolide.interface import Application

EXIT_CUT_SHORT = 1
ONE_STOP_S = 0.5
"""Signals within this time are one stop: a terminal and the program that runs the server both send
one, as does timeout(1) alone."""
INIT_PID = 1
"""The process that gets the children of those that end, such as a container's first one."""
IGNORED_SIGNALS = (signal.SIGALRM,)
"""They have no meaning, and must not end a server."""
KILL_AGAIN_S = 10.0
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
        self._actions = self._actions_of_signals()
        self._reread = reread
        self._course = Course()
        self._name = source if isinstance(source, str) else "app"
        self._selector = selectors.PollSelector()  # no descriptor that a worker would inherit
        self._exit_code = 0
        self._ends_process = False
        self._failure: Error | None = None
        self._slow_from: float | None = None
        """When the first start is reported as slow."""
        self._deadline: float | None = None
        """The end of the graceful time, once stopping has started."""
        self._reloads = Outcomes()
        self._upgrades = upgrade.Upgrades(
            self._selector, serves=self._taken_over, failed=self._not_upgraded
        )
        self._inherited = upgrade.inherited(os.environ, settings.scheme)
        """What this process has taken over."""
        self._systemd = systemd.Notifications(os.environ)  # with WATCHDOG_PID as corrected above
        self._pid_file = PidFile(settings.pid_file)
        self._second_from: float | None = None
        """When a signal to stop is a second one; None until there was a first one."""
        self._watch = Watch(settings, source)
        capacity.raise_descriptor_limit(settings)
        loop_name = loop.choose(settings.loop)
        access_log_fd = open_access_log(settings.access_log)
        read = certificates.Certificates(settings) if settings.pairs else None
        self._listeners = listener.open_all(self._addresses(settings), SocketAccess.of(settings))
        disclosure.check(settings, self._listeners)
        self._redirecting = self._open_redirecting(settings)
        self._management = self._open_management(settings)
        self._began_unix_s = time.time()
        lifeline_fd, self._lifeline_write_fd = os.pipe()
        job = worker.Job(
            source=self._preloaded(source, settings),
            settings=settings,
            loop_name=loop_name,
            listeners=self._listeners,
            access_log_fd=access_log_fd,
            lifeline_fd=lifeline_fd,
            certificates=read,
            redirecting=self._redirecting,
            tally=self._management.tally,
        )
        self._jobs = Jobs(with_siblings(job))
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
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGQUIT: self._stop_now,
            signal.SIGCHLD: self._collect,
            signal.SIGHUP: self._reload,
            signal.SIGUSR1: self._reopen_log,
            signal.SIGUSR2: self._upgrade,
            **{number: partial(_ignore, number) for number in IGNORED_SIGNALS},
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

    def _preloaded(self, source: Application | str, settings: Settings) -> Application | str:
        """Return the application, if it is to be imported before the workers start."""
        if not settings.preload or not isinstance(source, str):
            return source
        try:
            return preload.load(source, settings)
        except BaseException:
            self._management.close()
            listener.close_all(self._listeners)
            listener.close_all(self._redirecting)
            raise

    def _addresses(self, settings: Settings) -> Sequence[Address]:
        if self._inherited is not None:
            return self._inherited.addresses
        passed = [replace(each, scheme=settings.scheme) for each in systemd.passed(os.environ)]
        return passed or settings.addresses

    def _open_redirecting(self, settings: Settings) -> list[listener.Listener]:
        addresses: Sequence[Address] = settings.redirect_to_https
        if self._inherited is not None:
            addresses = self._inherited.redirecting
        try:
            return listener.open_all(addresses, SocketAccess.of(settings))
        except ConfigError:
            listener.close_all(self._listeners)
            raise

    def _open_management(self, settings: Settings) -> Management:
        try:
            served = [*self._listeners, *self._redirecting]
            return Management(settings.management, served, self._inherited)
        except ConfigError:
            listener.close_all(self._listeners)
            listener.close_all(self._redirecting)
            raise

    def _manage(self) -> None:
        """Open the management listener, if there is one."""
        if (tally := self._management.tally) is None:
            return
        server = pages.Server(
            workers=self._workers,
            tally=tally,
            name=lambda: self._name,
            settings=lambda: self._settings,
            phase=lambda: self._course.phase,
            reload=self._reload,
            stop=self._stop,
            reloads=self._reloads,
            began_unix_s=self._began_unix_s,
        )
        self._management.open(self._selector, server)

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
                    self._pid_file.write()
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
        inherited = [] if self._inherited is None else [self._inherited.report_fd]
        own = [self._lifeline_write_fd, *self._signal_fds, *inherited, *self._management.fds()]
        return own + self._watch.fds()

    def _watch_files(self) -> None:
        """Start to watch the files, in a process that needs no socket."""
        served = [each.socket.fileno() for each in (*self._listeners, *self._redirecting)]
        close_fds = [*self._own_fds(), *served]
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
            _attempt(self._actions.get(number, _nothing))

    def _close(self) -> None:
        self._watch.close()
        self._pid_file.remove()
        self._management.close()
        listener.close_all(self._listeners)
        listener.close_all(self._redirecting)
        self._jobs.close()
        os.close(self._lifeline_write_fd)

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._wait_s()):
            _attempt(key.data)
        _attempt(partial(self._do_what_is_due, time.monotonic()))

    def _wait_s(self) -> float | None:
        times = [self._workers.next_due(), self._deadline, self._slow_from, self._systemd.due]
        times.append(self._management.due)
        if self._certificates is not None and not self._course.is_ending:
            times.append(self._certificates.next_look)
        due = min((each for each in times if each is not None), default=None)
        wait_s = None if due is None else max(0.0, due - time.monotonic())
        if (own := stderr.installed()) is None or own.retry():
            return wait_s
        return stderr.RETRY_S if wait_s is None else min(wait_s, stderr.RETRY_S)

    def _do_what_is_due(self, now: float) -> None:
        self._workers.do_what_is_due(now)
        self._management.do_what_is_due(now)
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
            logger.warning("the graceful time is over; killing %d worker(s)", len(self._workers))
            if not self._watch.is_on:  # a developer's Ctrl-C is no failure
                self._exit_code = EXIT_CUT_SHORT
            self._workers.kill(signal.SIGKILL)
            self._deadline = now + KILL_AGAIN_S

    def _collect(self) -> None:
        self._workers.collect()
        if self._watch.has_ended():
            self._watch_files()
        self._upgrades.collect()
        if self._ends_process and os.getpid() == INIT_PID:
            self._reap_orphans()

    def _fail(self, error: Error) -> None:
        """Stop, because the first start has failed."""
        self._failure = error
        self._stop()

    def _reload(self) -> None:
        """Read the options and the certificates again, and replace the workers."""
        when = self._course.when(Event.RELOAD)
        if when is When.NEVER:
            _ignore(signal.SIGHUP)
            return
        self._systemd.reloading()
        if when is When.LATER:
            logger.info("the reload begins when the upgrade has ended")
            return
        number = self._reloads.begin()
        try:
            job = job_of_now(self._jobs.now, self._reread)
        except (Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            logger.error("cannot reload: %s; the workers that run go on", why)
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
        if (trusted := proxies.described(job.settings)) != trusted_before:
            logger.info(trusted)
        if job.settings.preload:
            logger.info("the application is not imported again, because of preload: USR2 does that")
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

    def _notify_ready(self) -> None:
        self._systemd.ready(f"serving {self._name} ({in_words(self._workers.count)})")

    def _begin_what_waits(self) -> None:
        """Begin what was accepted for the end of what has ended now."""
        actions = {Event.RELOAD: self._reload, Event.UPGRADE: self._upgrade}
        if (later := self._course.take_later()) is not None:
            actions[later]()

    def _reopen_log(self) -> None:
        """Continue the access log in the file that has its name now, after a rotation."""
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
        if os.getpid() == INIT_PID and self._workers.is_started:
            logger.info("SIGUSR2 is ignored: a container ends with its first process; replace both")
            return
        when = self._course.when(Event.UPGRADE)
        if when is When.LATER:
            logger.info("the upgrade begins when the reload has ended")
        elif when is When.NEVER and self._course.phase is not Phase.UPGRADING:
            _ignore(signal.SIGUSR2)
        elif self._upgrades.start(self._listeners, self._redirecting, self._management.bound):
            self._course.enter(Event.UPGRADE)
            self._systemd.reloading()

    def _taken_over(self, pid: int) -> None:
        """Drain, because the new process serves."""
        if self._course.is_ending:
            return
        self._systemd.hand_over(pid)
        for listeners in (self._listeners, self._redirecting):
            listeners[:] = [each.disowned() for each in listeners]
        self._management.leave()
        self._drain()  # which is no signal: the first one may also be meant for the new process

    def _not_upgraded(self) -> None:
        """Go on, because the new process has ended."""
        self._course.enter(Event.NOT_UPGRADED)
        self._notify_ready()
        self._begin_what_waits()

    def _scale(self, step: int) -> None:
        """Have one worker more or less than now, until the next reload."""
        count = self._workers.count + step
        if self._course.when(Event.SCALE) is When.NEVER:
            _ignore(signal.SIGTTIN if step > 0 else signal.SIGTTOU)
        elif count < 1:
            logger.info("SIGTTOU is ignored: there is only one worker")
        else:
            try:
                capacity.raise_descriptor_limit(replace(self._settings, workers=count))
            except ConfigError as error:
                logger.error("cannot have %s: %s", in_words(count), error)
                return
            logger.info("from now on %s", in_words(count))
            if not self._jobs.has_seats(count):
                self._course.enter(Event.RELOAD)
                self._reloads.begin()
            self._workers.scale(count)

    def _announce(self, connection_bytes_max: int) -> None:
        self._slow_from = None
        self._course.enter(Event.STARTED)
        processes = f"{in_words(self._workers.count)}, pid {os.getpid()}"
        for line in capacity.shortfalls(self._settings):
            logger.warning(line)
        logger.info(memory.described(self._settings, connection_bytes_max))
        logger.info(proxies.described(self._settings))
        if self._settings.debug:
            logger.warning(disclosure.WARNING)
        if self._inherited is not None:
            self._take_over(self._inherited)
        if self._redirecting:
            addresses = ", ".join(each.address.url for each in self._redirecting)
            logger.info("redirecting %s to https", addresses)
        if self._inherited is None:  # otherwise the old process reports it
            self._notify_ready()
        else:
            self._systemd.watch()
            self._inherited.report()
        # Last: when this line appears, everything else has been logged.
        listener.announce(self._name, self._listeners, processes)

    def _take_over(self, inherited: upgrade.Inherited) -> None:
        """Own what the old process leaves."""
        inherited.take_files(self._listeners)
        inherited.take_files(self._redirecting)
        inherited.take_files(self._management.bound)
        self._manage()
        try:
            self._pid_file.write()
        except ConfigError as error:
            logger.error("%s", error)

    def _reap_orphans(self) -> None:
        """Reap processes whose parents have ended: the command has no children but its workers."""
        workers = {each.child.pid for each in self._workers} | self._watch.pids()
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in workers:
                    return  # its own SIGCHLD follows
                os.waitpid(found.si_pid, 0)

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
        graceful_s = self._settings.graceful_timeout_ms / 1000
        what, left_s = "the application's startup has", graceful_s
        if self._workers.is_started:
            what, left_s = "requests in flight have", worker.drain_s(graceful_s)
        if self._failure is None:
            text = "stopping: %s up to %.3g s to finish; a second signal stops now"
            logger.info(text, what, left_s)
        self._begin_to_stop(signal.SIGTERM)

    def _begin_to_stop(self, number: signal.Signals) -> None:
        """Start no more workers, send a signal to those there are, and refuse connections."""
        now = time.monotonic()
        self._course.enter(Event.STOP)
        self._systemd.stopping()
        self._deadline = now + self._settings.graceful_timeout_ms / 1000
        self._workers.stop(number)  # before anything that may fail
        self._watch.close()
        self._upgrades.give_up(number)
        listener.close_all(self._listeners)
        listener.close_all(self._redirecting)


def _attempt(action: Callable[[], object]) -> None:
    """Act; what is not expected is logged, since it must not end the server."""
    try:
        action()
    except Exception:
        logger.exception("an error in the supervisor, which goes on")


def _ignore(number: signal.Signals) -> None:
    logger.info("%s is ignored: TERM or INT stops the server, QUIT stops it at once", number.name)


def _nothing() -> None:
    """Ignore a signal that is not ours, such as one that the application's script handles."""
