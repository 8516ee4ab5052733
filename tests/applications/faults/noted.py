"""What the application writes down: which requests it has begun and ended, and in which process."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

FILE = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(word: str, identity: str) -> None:
    """Write a line: one system call, so that lines of several workers do not mix."""
    os.write(FILE, f"{word} {identity} {os.getpid()}\n".encode())


@contextmanager
def noted(identity: str) -> Iterator[None]:
    """Write down that a request is begun, and that it has ended unless something is raised."""
    note("begun", identity)
    yield
    note("ended", identity)


def reply(identity: str, size: int = 0) -> bytes:
    """Return the content of a response: whose it is, and who responds."""
    return f"{identity} {os.getpid()}\n".encode().ljust(size, b".")


def fail(kind: str) -> NoReturn:
    """Raise what applications raise."""
    raise {
        "Exception": ValueError("of the test"),
        "BaseException": BaseException("of the test"),
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "MemoryError": MemoryError("of the test"),
        "RecursionError": RecursionError("of the test"),
    }[kind]


def hang(kind: str) -> None:
    """Do what a worker does not come back from."""
    if kind == "loop":
        while True:
            pass
    if kind == "gil":
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):  # no signal interrupts it, and PyDLL does not release the GIL
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    if kind == "sleep":
        time.sleep(3600)
    if kind == "deadlock":
        lock = threading.Lock()
        with lock:
            lock.acquire()
    if kind == "segfault":
        ctypes.string_at(0)
