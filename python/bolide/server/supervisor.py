"""The parent of the workers: owns the listening sockets, replaces dead workers, handles signals.

It runs no application code and no event loop, and a thread only to read certificates. One worker
and many take the same path. It waits in one call for a pipe to which signals are written, and for
the pipes to which starting workers report. Without an event, a due restart or a deadline it does
not wake.

Exit codes of the command: 0 after a requested stop, 1 if a second signal cut it short, 2 if the
first start failed because of a user's mistake (options, address, import), 3 if it failed in the
application's startup or for another reason. A worker that ends later is replaced, with increasing
delays.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bolide import _core
from bolide.errors import ConfigError, Error, StartupError
from bolide.server import (
    capacity,
    certificate_channel,
    certificates,
    child,
    listener,
    loop,
    stderr,
    worker,
)
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application

EXIT_CUT_SHORT = 1
ONE_STOP_S = 0.5
"""Signals within this time are one stop: a terminal and the program that runs the server both send
one, as does timeout(1) alone."""
INIT_PID = 1
"""The process that gets the children of those that end, such as a container's first one."""
QUIET_ENDS = ("exit status 0", "signal SIGTERM", "signal SIGKILL")
"""How a worker may end during a stop without a log line: as requested, or killed by us."""
IGNORED_SIGNALS = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTTIN,
)
"""They have no meaning yet, and must not end a server."""
RESTART_DELAY_S, RESTART_DELAY_S_MAX = 0.1, 10.0
KILL_AGAIN_S = 10.0
SIGNALS_READ_MAX = 1 << 16
"""What the pipe of signals holds: all that came are acted on together."""
SLOW_START_S = 10.0
"""After this time a start that has not ended is reported: the module may run a server itself."""
LONG_LIFE_S = 10.0
"""A worker that ran this long did not fail at its start; it is replaced without a long delay."""


@dataclass(slots=True)
class Slot:
    """A place for one worker, empty until its successor is due."""

    number: int
    child: child.Child | None = None
    delay_s: float = 0.0
    """How long the last successor waited."""
    due: float | None = None
    """When the next one starts."""
    channel: certificate_channel.Channel | None = None
    """Through which the worker gets new certificates."""


class Supervisor:
    """Workers for one application, from the first start to the last exit."""

    def __init__(self, source: Application | str, settings: Settings) -> None:
        # What each signal does.
        self._actions: dict[int, Callable[[], None]] = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGQUIT: self._stop_now,
            signal.SIGCHLD: self._collect,
            signal.SIGHUP: self._renew_certificates,
            **{number: partial(_ignore, number) for number in IGNORED_SIGNALS},
        }
        self._settings = settings
        self._name = source if isinstance(source, str) else "app"
        self._slots = [Slot(number + 1) for number in range(settings.workers)]
        self._selector = selectors.PollSelector()  # no descriptor that a worker would inherit
        self._exit_code = 0
        self._ends_process = False
        self._failure: Error | None = None
        self._is_announced = False
        self._slow_from: float | None = None
        """When the first start is reported as slow."""
        self._deadline: float | None = None
        """The end of the graceful time, once stopping has started."""
        self._second_from = 0.0
        """When a signal to stop is a second one."""
        capacity.raise_descriptor_limit(settings)
        loop_name = loop.choose(settings.loop)
        access_log_fd = open_access_log(settings.access_log)
        self._certificates = certificates.Certificates(settings) if settings.pairs else None
        self._listeners = listener.open_all(settings.addresses)
        self._redirecting = self._open_redirecting()
        lifeline_fd, self._lifeline_write_fd = os.pipe()
        self._job = worker.Job(
            source=source,
            settings=settings,
            loop_name=loop_name,
            listeners=self._listeners,
            access_log_fd=access_log_fd,
            lifeline_fd=lifeline_fd,
            siblings=_core.Siblings(settings.workers) if settings.workers > 1 else None,
            certificates=self._certificates,
            redirecting=self._redirecting,
        )

    def _open_redirecting(self) -> list[listener.Listener]:
        try:
            return listener.open_all(self._settings.redirect_to_https)
        except ConfigError:
            listener.close_all(self._listeners)
            raise

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
        with self._signals(ends_process=ends_process) as self._signal_fds:
            self._selector.register(self._signal_fds[0], selectors.EVENT_READ)
            try:
                for slot in self._slots:
                    if self._deadline is None:
                        self._start(slot)
                self._slow_from = time.monotonic() + SLOW_START_S
                while self._deadline is None or self._living():
                    self._wait()
            finally:
                self._kill_all(signal.SIGKILL)
                self._close()
        if self._failure is not None:
            raise self._failure
        logger.info("stopped")
        return self._exit_code

    def _close(self) -> None:
        listener.close_all(self._listeners)
        listener.close_all(self._redirecting)
        own_log_fd = self._job.access_log_fd
        for fd in (self._job.lifeline_fd, self._lifeline_write_fd, own_log_fd):
            if fd is not None:
                os.close(fd)

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._wait_s()):
            if key.data is None:
                for number in in_order(os.read(key.fd, SIGNALS_READ_MAX)):
                    _attempt(self._actions.get(number, _nothing))
            else:
                _attempt(partial(self._hear, key.data))
        _attempt(partial(self._do_what_is_due, time.monotonic()))

    def _wait_s(self) -> float | None:
        times = [slot.due for slot in self._slots if slot.due is not None]
        times += [each for each in (self._deadline, self._slow_from) if each is not None]
        if self._certificates is not None and self._deadline is None:
            times.append(self._certificates.next_look)
        wait_s = max(0.0, min(times) - time.monotonic()) if times else None
        if (own := stderr.installed()) is None or own.retry():
            return wait_s
        return stderr.RETRY_S if wait_s is None else min(wait_s, stderr.RETRY_S)

    def _do_what_is_due(self, now: float) -> None:
        for slot in self._slots:
            if slot.due is not None and slot.due <= now:
                self._start(slot)
        if self._certificates is not None and self._certificates.next_look <= now:
            self._certificates.look()
            self._send_certificates()
        if self._slow_from is not None and self._slow_from <= now:
            self._slow_from = None
            if not self._is_announced and self._deadline is None:
                remedy = 'put the call under `if __name__ == "__main__":`'
                text = "still importing or starting %s: if it calls app.run(), %s"
                logger.warning(text, self._name, remedy)
        if self._deadline is not None and self._deadline <= now and self._living():
            logger.warning("the graceful time is over; killing %d worker(s)", len(self._living()))
            self._exit_code = EXIT_CUT_SHORT
            self._kill_all(signal.SIGKILL)
            self._deadline = now + KILL_AGAIN_S

    def _start(self, slot: Slot) -> None:
        close_fds = [self._lifeline_write_fd, *self._signal_fds]
        close_fds += [each.report_fd for each in self._living()]
        close_fds += [each.channel.fd for each in self._slots if each.channel is not None]
        slot.due = channel_fd = None
        try:
            if self._certificates is not None:
                generation = self._certificates.generation
                slot.channel, channel_fd = certificate_channel.channel(generation)
                close_fds.append(slot.channel.fd)
            work = partial(worker.run, self._job, slot.number - 1, channel_fd)
            slot.child = child.start(work, close_fds, self._actions)
        except OSError as error:
            self._close_channel(slot)
            self._cannot_start(slot, error)
            return
        finally:
            if channel_fd is not None:
                os.close(channel_fd)
        self._selector.register(slot.child.report_fd, selectors.EVENT_READ, slot)

    def _cannot_start(self, slot: Slot, error: OSError) -> None:
        """Try again later, unless this is the first start, which then fails."""
        what = f"worker {slot.number} cannot start: {error.strerror}"
        if error.errno == errno.EAGAIN:
            what += "; is a limit of processes reached (ulimit -u, pids.max)?"
        if self._is_announced:
            self._schedule(slot, 0.0, what)
        else:
            self._failure = StartupError(what)
            self._stop()

    def _close_channel(self, slot: Slot) -> None:
        if slot.channel is not None:
            os.close(slot.channel.fd)
            slot.channel = None

    def _renew_certificates(self) -> None:
        """Read the certificates again, whether they seem to have changed or not."""
        if self._certificates is None or self._deadline is not None:
            _ignore(signal.SIGHUP)
        elif self._certificates.renew():
            self._send_certificates()

    def _send_certificates(self) -> None:
        if self._certificates is None:
            return
        used = self._certificates
        for slot in self._slots:
            if slot.channel is not None:
                slot.channel.send(used.generation, used.in_memory)

    def _hear(self, slot: Slot) -> None:
        """Read a report; after the last worker's first one, announce that the server is ready."""
        if slot.child is None or not slot.child.read_report():
            return
        self._selector.unregister(slot.child.report_fd)
        if slot.child.report and not slot.child.is_ready:
            slot.child.kill(signal.SIGTERM)  # it has reported why; it need not continue
        elif not self._is_announced and self._deadline is None and self._are_all_ready():
            self._announce(slot.child.report["connection_bytes_max"])

    def _are_all_ready(self) -> bool:
        return all(slot.child is not None and slot.child.is_ready for slot in self._slots)

    def _announce(self, connection_bytes_max: int) -> None:
        self._is_announced = True
        self._slow_from = None
        count = len(self._slots)
        processes = f"{count} worker{'' if count == 1 else 's'}, pid {os.getpid()}"
        for line in capacity.shortfalls(self._settings):
            logger.warning(line)
        logger.info(
            "a connection can use at most %s of its worker's memory",
            in_units(connection_bytes_max),
        )
        if self._redirecting:
            addresses = ", ".join(each.address.url for each in self._redirecting)
            logger.info("redirecting %s to https", addresses)
        # Last: when this line appears, everything else has been logged.
        listener.announce(self._name, self._listeners, processes)

    def _collect(self) -> None:
        for slot in self._slots:
            how = slot.child.ended() if slot.child else None
            if slot.child is None or how is None:
                continue
            ended, slot.child = slot.child, None
            self._close_channel(slot)
            if self._job.siblings is not None:
                self._job.siblings.clear(slot.number - 1)
            ended.read_report()
            if ended.report_fd in self._selector.get_map():
                self._selector.unregister(ended.report_fd)
            os.close(ended.report_fd)
            self._replace(slot, ended, how)
        if self._ends_process and os.getpid() == INIT_PID:
            self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Reap processes whose parents have ended: the command has no children but its workers."""
        workers = {each.pid for each in self._living()}
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in workers:
                    return  # its own SIGCHLD follows
                os.waitpid(found.si_pid, 0)

    def _replace(self, slot: Slot, ended: child.Child, how: str) -> None:
        """Decide what follows the exit of a worker."""
        if self._deadline is not None:
            if how not in QUIET_ENDS:
                logger.error("worker %d (pid %d) ended: %s", slot.number, ended.pid, how)
            return
        message = ended.report.get("message", "")
        if message:
            sys.stderr.write(ended.report["details"])
        if not self._is_announced:
            message = message or f"the worker ended while it started: {how}"
            is_mistake = ended.report.get("code") == worker.EXIT_MISTAKE
            self._failure = ConfigError(message) if is_mistake else StartupError(message)
            self._stop()
            return
        what = f"worker {slot.number} (pid {ended.pid}) ended: {message or how}"
        self._schedule(slot, time.monotonic() - ended.born, what)

    def _schedule(self, slot: Slot, lived_s: float, what: str) -> None:
        """Schedule the next worker; the delay grows with each worker that ended soon."""
        is_first = lived_s >= LONG_LIFE_S or not slot.delay_s
        slot.delay_s = RESTART_DELAY_S if is_first else min(slot.delay_s * 2, RESTART_DELAY_S_MAX)
        slot.due = time.monotonic() + slot.delay_s
        logger.error("%s; the next one starts in %.1f s", what, slot.delay_s)

    def _stop_now(self) -> None:
        """Stop without letting anything finish."""
        logger.warning("stopping now; killing %d worker(s)", len(self._living()))
        self._exit_code = EXIT_CUT_SHORT
        if self._deadline is None:
            self._begin_to_stop(signal.SIGKILL)
        else:
            self._kill_all(signal.SIGKILL)

    def _stop(self) -> None:
        """Drain and stop; the second time, stop now."""
        if self._deadline is not None:
            if time.monotonic() >= self._second_from:
                self._stop_now()
            return
        graceful_s = self._settings.graceful_timeout_ms / 1000
        what, left_s = "the application's startup has", graceful_s
        if self._is_announced:
            what, left_s = "requests in flight have", worker.drain_s(graceful_s)
        if self._failure is None:
            text = "stopping: %s up to %.3g s to finish; a second signal stops now"
            logger.info(text, what, left_s)
        self._begin_to_stop(signal.SIGTERM)

    def _begin_to_stop(self, number: signal.Signals) -> None:
        """Start no more workers, send a signal to those there are, and refuse connections."""
        now = time.monotonic()
        self._deadline = now + self._settings.graceful_timeout_ms / 1000
        self._second_from = now + ONE_STOP_S
        for slot in self._slots:
            slot.due = None
        self._kill_all(number)  # before anything that may fail
        listener.close_all(self._listeners)
        listener.close_all(self._redirecting)

    def _kill_all(self, number: signal.Signals) -> None:
        for each in self._living():
            each.kill(number)

    def _living(self) -> list[child.Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    @contextmanager
    def _signals(self, *, ends_process: bool) -> Iterator[tuple[int, int]]:
        """Let each signal of the table write its number to a pipe; restore all at the end.

        If the process ends then, those that only repeat a stop, or mean nothing, are ignored.
        """
        read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = {number: signal.signal(number, lambda *_: None) for number in self._actions}
        # Not by a handler: a background job would retry its write to the terminal for ever.
        before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        wakeup_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        try:
            yield read_fd, write_fd
        finally:
            signal.set_wakeup_fd(wakeup_fd)
            for number, handler in before.items():
                is_over = ends_process and number != signal.SIGCHLD
                signal.signal(number, signal.SIG_IGN if is_over else handler)
            os.close(read_fd)
            os.close(write_fd)


def in_order(given: bytes) -> list[int]:
    """Return the signals that came since the last time, each once, in the order to act on them.

    Those that stop the server come first, because others take time. SIGCHLD is the last: a signal
    to the whole process group also ends the workers.
    """
    first, last = (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT), (signal.SIGCHLD,)
    return sorted(set(given), key=lambda number: ((number in last) - (number in first), number))


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


def open_access_log(path: str) -> int | None:
    """Open the access log for appending; None if it is off. The caller closes the descriptor.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path == "off":
        return None
    if path == "-":
        return _standard_output()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_NONBLOCK, 0o644)  # does not wait for a FIFO's reader
        os.set_blocking(fd, True)
        return fd
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ConfigError(
                f"cannot write the access log {path}: the FIFO has no reader"
            ) from None
        raise ConfigError(f"cannot write the access log {path}: {error.strerror}") from None


def _standard_output() -> int:
    try:
        if sys.__stdout__ is not None:
            return os.dup(sys.__stdout__.fileno())
    except (OSError, ValueError):
        pass
    raise ConfigError("cannot write the access log -: standard output is closed; give a file")


def in_units(size: int) -> str:
    """Format a number of bytes with a unit."""
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.3g} {unit}"
