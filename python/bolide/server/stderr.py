"""Non-blocking standard error: a process of the server never waits when it writes to it.

Otherwise a pipe that is not read would stop every process that logs: a worker's reactor, or the
supervisor, which could then handle no signal. Data that the reader has not taken is queued in
memory, up to a limit. Beyond it, lines are dropped and counted, and the count is written when there
is room again. If the disk is full, or the pipe has no reader any more, the data is discarded.

Processes that an application forks write as usual, and wait.
"""

from __future__ import annotations

import io
import logging
import os
import select
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TextIO

QUEUED_BYTES_MAX: Final = 1 << 18
"""A few thousand lines, enough for a reader that pauses for a moment."""
RETRY_S: Final = 0.2
LAST_WORDS_S: Final = 0.5
"""Time that the reader has at the end of the process to take what is queued."""
STDERR_FD: Final = 2

_installed: StandardError | None = None


class StandardError(io.RawIOBase):
    """Standard error of the process, as a stream whose writes never wait and never fail."""

    name, mode = "<stderr>", "w"

    def __init__(self, fd: int = STDERR_FD) -> None:
        self._fd = fd
        self._outlet, self._close_outlet = _outlet(fd)
        self._file = _identity(fd)
        self._queue: deque[bytes] = deque()
        self._dropped_lines = 0
        # A signal handler or a finalizer may write during a write.
        self._lock = threading.RLock()
        self._is_sending = False
        self._has_thread = False
        """Whether a thread may write what is queued; otherwise the next `retry` does."""

    def fileno(self) -> int:
        """Return the descriptor of standard error."""
        return self._fd

    def writable(self) -> bool:
        """Return True, whatever the state of the reader."""
        return True

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._fd)

    def write(self, data: Any) -> int:
        """Write what the reader takes at once, and queue the rest; return the length of `data`."""
        given = bytes(data)
        with self._lock:
            # A copy, since a signal handler may write while the lengths are added.
            if self._queue and len(given) + sum(map(len, self._queue.copy())) > QUEUED_BYTES_MAX:
                self._dropped_lines += given.count(b"\n") or 1
            else:
                self._queue.append(given)
            if not self.retry() and self._has_thread:
                self._has_thread = False  # only one at a time
                try:
                    threading.Thread(target=self._write_later, daemon=True).start()
                except RuntimeError:  # no thread can be started now
                    self._has_thread = True
        return len(given)

    def retry(self) -> bool:
        """Write what is queued, as far as the reader takes it; return whether nothing is left."""
        with self._lock:
            if self._is_sending:
                return True  # the call that is sending also sends what was added
            self._is_sending = True
            try:
                self._follow()
                while self._queue or self._dropped_lines:
                    if not self._send(self._next()):
                        return False
            finally:
                self._is_sending = False
        return True

    def _send(self, line: bytes) -> bool:
        """Write a line, or put back what the reader does not take."""
        try:
            rest = line[self._outlet(line) :]
        except BlockingIOError:
            rest = line
        except OSError:  # there is no reader, or the disk is full
            return True
        if not rest:
            return True
        if len(rest) > QUEUED_BYTES_MAX:
            self._dropped_lines += rest.count(b"\n") or 1
        else:
            self._queue.appendleft(rest)
        return rest != line

    def _follow(self) -> None:
        """Write to another file from now on, if the descriptor now refers to one."""
        found = _identity(self._fd)
        if None not in (found, self._file) and found != self._file:
            self.never_wait()

    def _next(self) -> bytes:
        if self._queue:
            return self._queue.popleft()
        count, self._dropped_lines = self._dropped_lines, 0
        return f"bolide: {count} line(s) dropped: standard error was not read\n".encode()

    def let_thread(self) -> None:
        """Allow a thread to write what is queued, in a process that forks none of ours."""
        self._has_thread = True

    def wait_in_child(self) -> None:
        """After a fork by the application: leave the queue to the parent, and let writes wait."""
        self._queue.clear()
        self._dropped_lines = 0
        self._lock = threading.RLock()
        self._is_sending = self._has_thread = False
        self._outlet = self._write_all
        self._file = None

    def never_wait(self) -> None:
        """After a fork by the server: write without waiting again."""
        self._file = _identity(self._fd)
        self._close_outlet()
        self._outlet, self._close_outlet = _outlet(self._fd)

    def finish(self) -> None:
        """Give the reader a moment to take what is queued."""
        end = time.monotonic() + LAST_WORDS_S
        while not self.retry() and time.monotonic() < end:
            time.sleep(RETRY_S / 10)

    def end(self) -> None:
        """Write what can be written at once, and nothing after that."""
        self.retry()
        self._close_outlet()
        self._outlet, self._close_outlet = len, _nothing

    def _write_all(self, data: bytes) -> int:
        rest = data
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        return len(data)

    def _write_later(self) -> None:
        while not self._has_written():
            time.sleep(RETRY_S)

    def _has_written(self) -> bool:
        """Write what is queued; if nothing is left, a later line may start another thread."""
        with self._lock:
            self._has_thread = self.retry()
            return self._has_thread


def _outlet(fd: int) -> tuple[Callable[[bytes], int], Callable[[], None]]:
    """Return a function that writes to a descriptor or raises BlockingIOError, and its closer."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        reached = socket.socket(fileno=os.dup(fd))
        return (lambda data: reached.send(data, socket.MSG_DONTWAIT)), reached.close
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            # Opened again, because others that share the descriptor must not get the flag.
            own_fd = os.open(f"/proc/self/fd/{fd}", flags)
        except OSError:
            return (lambda data: _write_if_ready(fd, data)), _nothing
        return (lambda data: os.write(own_fd, data)), lambda: os.close(own_fd)
    return (lambda data: os.write(fd, data)), _nothing


def _identity(fd: int) -> tuple[int, int] | None:
    """Identify the file of a descriptor by device and inode; None if it is closed."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _nothing() -> None:
    """Close nothing."""


def _write_if_ready(fd: int, data: bytes) -> int:
    """Write at most what a pipe accepts without waiting, unless another process fills it first."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    if not poller.poll(0):
        raise BlockingIOError
    return os.write(fd, data[: select.PIPE_BUF])


def install() -> None:
    """Replace `sys.stderr` of this process, if it is the original, by one that never waits."""
    global _installed
    before = sys.stderr
    if _installed is not None or sys.__stderr__ not in (before, None):
        return
    _installed = StandardError(before.fileno())
    sys.stderr = io.TextIOWrapper(
        _installed,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=True,
        write_through=True,
    )
    _redirect(before, sys.stderr)


def uninstall() -> None:
    """Write what is queued, and restore the original stream."""
    global _installed
    if _installed is None or not isinstance(sys.__stderr__, io.TextIOBase):
        return
    _installed.finish()  # first: an interrupt may end this, and its traceback must not wait
    wrapper = sys.stderr
    sys.stderr = sys.__stderr__
    _redirect(wrapper, sys.__stderr__)
    _installed.end()
    _installed = None


def _redirect(before: TextIO, after: TextIO) -> None:
    """Redirect logging handlers from one stream to another."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for each in loggers:
        for handler in getattr(each, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(after)


def installed() -> StandardError | None:
    """Return the stream that `install` created, if any."""
    return _installed


def _wait_in_child() -> None:
    if _installed is not None:
        _installed.wait_in_child()


os.register_at_fork(after_in_child=_wait_in_child)


def open_missing() -> None:
    """Open descriptors 0 to 2 if they are closed, so that no socket gets one of them."""
    opened: list[int] = []
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened.append(os.open(os.devnull, os.O_RDWR))
            os.set_inheritable(opened[-1], True)
    # A script without the stream may have got its descriptor for a file of its own.
    if sys.stdout is None:
        sys.stdout = open(1 if 1 in opened else os.devnull, "w", closefd=1 not in opened)
    if sys.stderr is None:
        sys.stderr = open(2 if 2 in opened else os.devnull, "w", closefd=2 not in opened)
