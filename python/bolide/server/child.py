"""One worker process as the supervisor sees it: fork, report, exit."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from os import waitid, waitpid  # an application that is imported here may replace them (gevent)
from typing import Any, NoReturn

from bolide.server import forked, stderr
from bolide.server.logs import logger

EXIT_CRASH = 70
"""A worker that raised past all handlers (EX_SOFTWARE)."""
UNKNOWN_END = "unknown, because it was reaped by other code of this process"
REPORT_BYTES_MAX = 1 << 20
"""A line of a report is a few hundred bytes, or a traceback; more is no report."""
REPORTED: Mapping[str, type] = {
    "ready": bool,
    "connection_bytes_max": int,
    "requests": int,
    "leaving": bool,
    "unfit": bool,
    "code": int,
    "message": str,
    "details": str,
    "watching": bool,
    "changed": str,
    "error": str,
}
"""What a worker reports; the last three are those of the process that watches files."""
UNHEARD_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTTIN,
)
"""Signals without effect on a worker: a terminal, or `pkill`, sends them to the supervisor too.

An application may give them a meaning of its own."""


@dataclass(slots=True)
class Child:
    """A worker process that was started."""

    pid: int
    report_fd: int
    born: float = field(default_factory=time.monotonic)
    report: dict[str, Any] = field(default_factory=dict)
    """Its report: `ready` and `connection_bytes_max`, or `code`, `message` and `details`.

    Later `requests`, if it has served as many as it shall, and `leaving`."""
    is_silent: bool = False
    """Whether it will report no more."""
    is_malformed: bool = False
    """Whether something else was written to its pipe, which was logged."""
    has_ended: bool = False
    """Whether it was reaped: its number may be that of another process."""
    _received: bytearray = field(default_factory=bytearray)

    @property
    def is_ready(self) -> bool:
        """Whether it has reported that it serves."""
        return self.report.get("ready") is True and "connection_bytes_max" in self.report

    def read_report(self) -> bool:
        """Read what it has reported so far; return whether there is something new.

        A report is one line; a process of the application may keep the pipe open after the last.
        """
        with suppress(BlockingIOError):
            while len(self._received) <= REPORT_BYTES_MAX:
                data = os.read(self.report_fd, 65536)
                self._received += data
                if not data:
                    self.is_silent = True
                    break
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            self._take(bytes(line))
        if len(self._received) > REPORT_BYTES_MAX:
            self._take(bytes(self._received))
            self._received.clear()
        return bool(lines) or self.is_silent or self.is_malformed

    def _take(self, line: bytes) -> None:
        """Take what a line reports; one that is malformed, or cut off, is a failed start."""
        with suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict) and all(
                isinstance(value, REPORTED.get(name, ())) for name, value in message.items()
            ):
                self.report |= message
                return
        if not self.is_malformed:
            self.is_malformed = True
            text = "the report of process %d is malformed (%r); does its application write to"
            logger.error(f"{text} descriptors that it has not opened?", self.pid, line[:40])
        if not self.is_ready:
            why = "its report is malformed"
            self.report |= {"ready": False, "code": EXIT_CRASH, "message": why, "details": ""}

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal, unless it was reaped, also by other code of this process."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self) -> str | None:
        """Reap the process if it has ended, and return how; None while it runs."""
        try:
            pid, status = waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else in this process has reaped it
            self.has_ended = True
            return UNKNOWN_END
        if pid == 0:
            return None
        self.has_ended = True
        return how_ended(os.waitstatus_to_exitcode(status))


def start(work: Callable[[int], int], close_fds: Iterable[int], signals: Collection[int]) -> Child:
    """Fork a worker that calls `work` with the descriptor to report to; that returns the exit code.

    `signals` are those that the supervisor handles: they are blocked until the child has its own
    handlers, so that it does not handle one in place of the supervisor. The child closes
    `close_fds`.
    """
    report_fd, write_fd = os.pipe()
    try:
        os.set_blocking(report_fd, False)
        gc.collect()
        gc.freeze()  # otherwise the collector would write to, and so copy, every shared page
        pid = _fork(lambda: work(write_fd), [*close_fds, report_fd], signals)
    except BaseException:
        os.close(report_fd)
        raise
    finally:
        os.close(write_fd)
    return Child(pid, report_fd)


def reap_orphans(own: Collection[int]) -> None:
    """Reap processes whose parents have ended, in a process that gets them and has no others.

    `own` are those that are reaped elsewhere.
    """
    with suppress(ChildProcessError):
        while found := waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in own:
                return  # its own SIGCHLD follows
            waitpid(found.si_pid, 0)


def _fork(work: Callable[[], int], close_fds: Iterable[int], signals: Collection[int]) -> int:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        pid = forked.fork()
        if pid == 0:
            _be_worker(work, close_fds, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_worker(work: Callable[[], int], close_fds: Iterable[int], mask: set[int]) -> NoReturn:
    """Run the child's side; never return into the supervisor's frames below."""
    code = EXIT_CRASH
    try:
        _forget_exit_functions()
        _forget_processes()
        _forget_output()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in UNHEARD_SIGNALS:
            signal.signal(number, lambda *_: None)  # its subprocesses would inherit SIG_IGN
        for fd in close_fds:
            os.close(fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if (own := stderr.installed()) is not None:
            own.never_wait()
            own.let_thread()
        code = work()
        threading._shutdown()  # type: ignore[attr-defined]  # joins threads, as at a normal exit
        atexit._run_exitfuncs()
    except BaseException:
        logger.critical("the worker failed", exc_info=True)
    finally:
        leave(code)


def _forget_exit_functions() -> None:
    """Unregister exit functions of before the fork: the supervisor runs them.

    Those that modules register once for all of their objects are registered again, for the worker.
    """
    atexit._clear()
    atexit.register(logging.shutdown)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        atexit.register(util._exit_function)  # it ignores objects of other processes
    for each in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        each.atexit = False
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _forget_processes() -> None:
    """Leave the application's processes of before the fork to the parent: they are not ours.

    At its exit a worker would otherwise end those that are daemons, and wait for the others.
    """
    if (module := sys.modules.get("multiprocessing.process")) is not None:
        module._children = set()  # type: ignore[attr-defined]  # as in a process of its own


def _forget_output() -> None:
    """Drop what the supervisor has buffered and could not write: it does that itself, once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, or no file
            fd = stream.fileno()
            is_inherited, kept_fd = os.get_inheritable(fd), os.dup(fd)
            try:
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), fd)
                stream.flush()
            finally:
                os.dup2(kept_fd, fd, is_inherited)
                os.close(kept_fd)


def flush_output() -> None:
    """Write what is buffered for standard output and error, if the readers take it soon."""
    handler = signal.signal(signal.SIGALRM, _give_up)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):  # closed, a full disk, a pipe that nobody reads
                signal.setitimer(signal.ITIMER_REAL, stderr.LAST_WORDS_S)
                stream.flush()
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _give_up(*_: object) -> NoReturn:
    raise TimeoutError


def leave(code: int) -> NoReturn:
    """End the process, whatever the state of its output streams."""
    try:
        flush_output()
        if (own := stderr.installed()) is not None:
            own.finish()
    finally:
        os._exit(code)


def how_ended(code: int) -> str:
    """Return how a process has ended; the code of a signal is negative."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
