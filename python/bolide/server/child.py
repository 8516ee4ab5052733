"""One worker process as the supervisor sees it: its fork, its report, its end."""

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
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from bolide.server import stderr
from bolide.server.logs import logger

EXIT_CRASH = 70
"""A worker that raised past all handlers (EX_SOFTWARE)."""
UNHEARD_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTTIN,
)
"""They do nothing to a worker: a terminal, or whoever signals by name, means the supervisor too.

An application may give them a meaning of its own."""


@dataclass(slots=True)
class Child:
    """A worker process that was started."""

    pid: int
    report_fd: int
    born: float = field(default_factory=time.monotonic)
    report: dict[str, Any] = field(default_factory=dict)
    """What it said: `ready` and `connection_bytes_max`, or `code`, `message` and `details`."""
    _received: bytearray = field(default_factory=bytearray)

    @property
    def is_ready(self) -> bool:
        """Whether it has said that it serves."""
        return self.report.get("ready") is True

    def read_report(self) -> bool:
        """Take in what it has reported so far; return whether that was all.

        A report is one line; a process of the application's may hold the pipe open behind it.
        """
        try:
            while data := os.read(self.report_fd, 65536):
                self._received += data
        except BlockingIOError:
            if not self._received.endswith(b"\n"):
                return False
        if self._received.endswith(b"\n"):
            self.report = json.loads(self._received)
        return True

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def ended(self) -> str | None:
        """Collect it if it has ended, and say how; None while it lives."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return f"exit status {code}" if code >= 0 else f"signal {_signal_name(-code)}"


def start(work: Callable[[int], int], close_fds: Iterable[int], signals: Collection[int]) -> Child:
    """Fork a worker that does `work`: given the descriptor to report to, return the exit code.

    `signals` are those that the supervisor handles: the child must not take one for the supervisor,
    so they wait until it has handlers of its own. Of `close_fds` it has no use.
    """
    report_fd, write_fd = os.pipe()
    os.set_blocking(report_fd, False)
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that the processes share
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        pid = os.fork()
        if pid == 0:
            _be_worker(lambda: work(write_fd), [*close_fds, report_fd], before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(write_fd)
    return Child(pid, report_fd)


def _be_worker(work: Callable[[], int], close_fds: Iterable[int], mask: set[int]) -> NoReturn:
    """Run the child's side; never return into the supervisor's frames below."""
    code = EXIT_CRASH
    try:
        _forget_exit_functions()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in UNHEARD_SIGNALS:
            signal.signal(number, lambda *_: None)  # SIG_IGN would pass to its subprocesses
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
        _leave(code)


def _forget_exit_functions() -> None:
    """Leave what was registered before the fork to the supervisor.

    What modules have registered once for all of their objects is registered anew, for the worker's.
    """
    atexit._clear()
    atexit.register(logging.shutdown)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        atexit.register(util._exit_function)  # which ignores objects of other processes
    for each in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        each.atexit = False
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _give_up(*_: object) -> NoReturn:
    raise TimeoutError


def _leave(code: int) -> NoReturn:
    """End the process, whatever has become of what it writes to."""
    try:
        signal.signal(signal.SIGALRM, _give_up)
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):  # closed, a full disk, a pipe that nobody reads
                signal.setitimer(signal.ITIMER_REAL, stderr.LAST_WORDS_S)
                stream.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if (own := stderr.installed()) is not None:
            own.finish()
    finally:
        os._exit(code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
