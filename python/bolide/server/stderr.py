"""Standard error that nobody has to read: what a server's process writes to it never waits.

A pipe that nobody reads would otherwise stop whoever logs: a worker's reactor, or the supervisor,
which would then hear no signal. What the reader has not taken waits in memory, up to a bound;
beyond it lines are dropped, counted, and the count is written when there is room again. A file on
a full disk and a pipe whose reader has gone drop what is written.

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
"""Some thousand lines: what a reader that pauses for a moment has missed."""
RETRY_S: Final = 0.2
LAST_WORDS_S: Final = 0.5
"""What a reader has at the end of the process to take what waits."""
STDERR_FD: Final = 2

_installed: StandardError | None = None


class StandardError(io.RawIOBase):
    """The process's standard error as a stream whose writes never wait and never fail."""

    name, mode = "<stderr>", "w"

    def __init__(self, fd: int = STDERR_FD) -> None:
        self._fd = fd
        self._outlet, self._close_outlet = _outlet(fd)
        self._file = _identity(fd)
        self._queue: deque[bytes] = deque()
        self._dropped_lines = 0
        # A signal handler or a finalizer may write in the midst of a write.
        self._lock = threading.RLock()
        self._is_sending = False
        self._has_thread = False
        """Whether a thread may write what waits; otherwise it is left to the next `retry`."""

    def fileno(self) -> int:
        """Return the descriptor of standard error itself."""
        return self._fd

    def writable(self) -> bool:
        """Whatever has become of the reader."""
        return True

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return os.isatty(self._fd)

    def write(self, data: Any) -> int:
        """Write what the reader takes at once, and keep the rest; return the length of `data`."""
        given = bytes(data)
        with self._lock:
            if self._queue and len(given) + sum(map(len, self._queue)) > QUEUED_BYTES_MAX:
                self._dropped_lines += given.count(b"\n") or 1
            else:
                self._queue.append(given)
            if not self.retry() and self._has_thread:
                self._has_thread = False  # one is enough
                try:
                    threading.Thread(target=self._write_later, daemon=True).start()
                except RuntimeError:  # there can be none now
                    self._has_thread = True
        return len(given)

    def retry(self) -> bool:
        """Write what waits, as far as the reader takes it; return whether nothing is left."""
        with self._lock:
            if self._is_sending:
                return True  # whoever is in the midst of it goes on with what has come
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
        except OSError:  # nobody will read it, or the disk is full
            return True
        if not rest:
            return True
        if len(rest) > QUEUED_BYTES_MAX:
            self._dropped_lines += rest.count(b"\n") or 1
        else:
            self._queue.appendleft(rest)
        return rest != line

    def _follow(self) -> None:
        """Write to another file from now on, if the descriptor was made one of that."""
        found = _identity(self._fd)
        if None not in (found, self._file) and found != self._file:
            self.never_wait()

    def _next(self) -> bytes:
        if self._queue:
            return self._queue.popleft()
        count, self._dropped_lines = self._dropped_lines, 0
        return f"bolide: {count} line(s) dropped: nobody read standard error\n".encode()

    def let_thread(self) -> None:
        """In a process that forks no others of ours: a thread may write what waits."""
        self._has_thread = True

    def wait_in_child(self) -> None:
        """In a process that was forked: what waits is its parent's to write, and writes wait."""
        self._queue.clear()
        self._dropped_lines = 0
        self._lock = threading.RLock()
        self._is_sending = self._has_thread = False
        self._outlet = self._write_all
        self._file = None

    def never_wait(self) -> None:
        """In a process of the server's that was forked."""
        self._file = _identity(self._fd)
        self._close_outlet()
        self._outlet, self._close_outlet = _outlet(self._fd)

    def finish(self) -> None:
        """Return the reader a moment to take what waits."""
        end = time.monotonic() + LAST_WORDS_S
        while not self.retry() and time.monotonic() < end:
            time.sleep(RETRY_S / 10)

    def end(self) -> None:
        """Write what can be written, and nothing from then on."""
        self.finish()
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
        """Write what waits; if nothing is left, a line that has to wait gets another thread."""
        with self._lock:
            self._has_thread = self.retry()
            return self._has_thread


def _outlet(fd: int) -> tuple[Callable[[bytes], int], Callable[[], None]]:
    """Return what writes to a descriptor, or raises BlockingIOError; and what closes that."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        reached = socket.socket(fileno=os.dup(fd))
        return (lambda data: reached.send(data, socket.MSG_DONTWAIT)), reached.close
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            # Opened once more: the flag is not set for others that share the descriptor.
            own_fd = os.open(f"/proc/self/fd/{fd}", flags)
        except OSError:
            return (lambda data: _write_if_ready(fd, data)), _nothing
        return (lambda data: os.write(own_fd, data)), lambda: os.close(own_fd)
    return (lambda data: os.write(fd, data)), _nothing


def _identity(fd: int) -> tuple[int, int] | None:
    """Name the file that a descriptor is of; None if it is closed."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _nothing() -> None:
    """There is nothing to close."""


def _write_if_ready(fd: int, data: bytes) -> int:
    """Write at most what a pipe takes without waiting, unless another process is faster."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    if not poller.poll(0):
        raise BlockingIOError
    return os.write(fd, data[: select.PIPE_BUF])


def install() -> None:
    """Let `sys.stderr` of this process, if it is the real one, never wait."""
    global _installed
    before = sys.stderr
    if _installed is not None or sys.__stderr__ not in (before, None):
        return
    _installed = StandardError()
    sys.stderr = io.TextIOWrapper(
        _installed,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=True,
        write_through=True,
    )
    _redirect(before, sys.stderr)


def uninstall() -> None:
    """Write what waits, and put the stream of before back."""
    global _installed
    if _installed is None or not isinstance(sys.__stderr__, io.TextIOBase):
        return
    wrapper = sys.stderr
    sys.stderr = sys.__stderr__
    _redirect(wrapper, sys.__stderr__)
    _installed.end()
    _installed = None


def _redirect(before: TextIO, after: TextIO) -> None:
    """Let logging handlers that write to one stream write to another."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for each in loggers:
        for handler in getattr(each, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(after)


def installed() -> StandardError | None:
    """Return the stream that `install` has put in place."""
    return _installed


def _wait_in_child() -> None:
    if _installed is not None:
        _installed.wait_in_child()


os.register_at_fork(after_in_child=_wait_in_child)


def open_missing() -> None:
    """Let descriptors 0 to 2 be open: a socket that got one of them would be read or written."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)
