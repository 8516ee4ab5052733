"""How signals reach a supervisor: as bytes in a pipe, which are acted on together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from signal import signal as handle  # an application may replace it when it is imported (gevent)
from types import FrameType
from typing import NoReturn

from bolide.server.logs import logger

TERMINAL_SIGNALS = {signal.SIGTTIN, signal.SIGTTOU}
"""A terminal sends them to a background job that reads or writes; others, to scale a server."""
SIGNALS_READ_MAX = 1 << 16
"""What the pipe of signals holds: all that came are acted on together."""
SIGNALS_OF_CONTAINERS = (signal.SIGPWR, signal.SIGRTMIN + 3)
"""What LXC and systemd-nspawn send to stop the first process of a container."""
DRAINS = (signal.SIGTERM, signal.SIGINT, *SIGNALS_OF_CONTAINERS)
"""Signals after which requests in flight may finish."""
MEANINGLESS = (
    signal.SIGSTKFLT,
    signal.SIGXCPU,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    *sorted({*range(signal.SIGRTMIN, signal.SIGRTMAX + 1)} - {*SIGNALS_OF_CONTAINERS}),
)
"""They are left to an application that handles them, such as a profiler."""
IGNORED = (signal.SIGALRM, *MEANINGLESS)
"""They have no meaning, and must not end a server. The workers inherit their handlers."""
STOPS = dict.fromkeys(DRAINS, 0) | {signal.SIGINT: 130, signal.SIGQUIT: 1}
"""Signals that stop a server which imports the application, and its exit codes then."""
SIGNALED = 128
"""What a shell adds to the number of the signal that has ended a process."""
LATER = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, *IGNORED, *TERMINAL_SIGNALS)
"""Those that wait until it has started."""


class StoppedError(BaseException):
    """A signal has stopped the server while it imported the application."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stopping_an_import(*, is_check: bool = False) -> Iterator[None]:
    """Let signals end the process while it imports the application, or wait until it serves.

    `written_to_a_pipe` handles those that wait, and one that the application has not passed on. For
    a check that is stopped, the exit code is the one of shells, because nothing was found to be
    right.

    Raises:
        SystemExit: a signal has stopped it.
    """
    came: list[int] = []

    def stop(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise StoppedError(number)

    signal.pthread_sigmask(signal.SIG_BLOCK, LATER)
    before = {number: handle(number, stop) for number in STOPS}
    is_over = False
    try:
        try:
            # A container's first process has kept them until there are handlers.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            yield
            is_over = True
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    except BaseException:
        if not came:
            raise
    for number, handler in before.items():
        handle(number, handler)
    if not came:
        return
    if is_over and not is_check:
        os.kill(os.getpid(), came[0])  # the application has caught it: it waits
        return
    logger.info("stopped while the application was imported")
    sys.exit(SIGNALED + came[0] if is_check else STOPS[came[0]])


def is_of_a_stop(error: BaseException | None) -> bool:
    """Return whether a signal that has stopped the import has led to this error."""
    while error is not None and not isinstance(error, StoppedError):
        error = error.__cause__ or error.__context__
    return error is not None


def note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing more: the signal's number is written to a pipe."""


@contextmanager
def written_to_a_pipe(numbers: Collection[int], *, ends_process: bool) -> Iterator[tuple[int, int]]:
    """Let each of these signals write its number to a pipe; restore all at the end.

    If the process ends then, those that only repeat a stop, or mean nothing, are ignored.
    """
    numbers = [number for number in numbers if not _has_handler(number)]
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    ignored = TERMINAL_SIGNALS - set(numbers)
    if ends_process:
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # those that come now wait
    wakeup_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    before = {number: handle(number, note) for number in numbers}
    before.update((number, handle(number, signal.SIG_IGN)) for number in ignored)
    if ends_process:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # those that wait are handled now
    try:
        yield read_fd, write_fd
    finally:
        signal.set_wakeup_fd(wakeup_fd)
        for number, handler in before.items():
            is_over = ends_process and number != signal.SIGCHLD
            handle(number, signal.SIG_IGN if is_over else handler)
        os.close(read_fd)
        os.close(write_fd)


def read(read_fd: int) -> list[int]:
    """Return the signals that came since the last time, in the order to act on them."""
    return in_order(os.read(read_fd, SIGNALS_READ_MAX))


def in_order(given: bytes) -> list[int]:
    """Return each signal once, in the order to act on them.

    Those that stop the server come first, because others take time. SIGCHLD is the last: a signal
    to the whole process group also ends the workers.
    """
    first, last = (signal.SIGQUIT, *DRAINS), (signal.SIGCHLD,)
    return sorted(set(given), key=lambda number: ((number in last) - (number in first), number))


def _has_handler(number: int) -> bool:
    """Return whether the application handles a signal that means nothing here."""
    return number in MEANINGLESS and signal.getsignal(number) is not signal.SIG_DFL


def ignore(number: int) -> None:
    """Log that a signal has no meaning."""
    text = "%s is ignored: TERM or INT stops the server, QUIT stops it at once"
    logger.info(text, _name_of(number))


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def pass_over() -> None:
    """Leave a signal alone that is not ours, such as one that the application's script handles."""


def has_terminal() -> bool:
    """Return whether a standard stream is a terminal, which uses TTIN and TTOU for itself.

    A handler of TTOU would have a background job retry its write to the terminal for ever.
    """
    return any(os.isatty(fd) for fd in range(3))
