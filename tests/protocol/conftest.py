"""What the tests of adverse peers share: one application in every interface, and ways to wait."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reply import Connection
from running import Server

PATIENCE_S = 10
INLINE = ("--threads", "1")
APPLICATION = {
    "native": ("pressure/native.py",),
    "asgi": ("pressure/asgi.py",),
    "wsgi": ("pressure/wsgi.py",),
    "wsgi, inline": ("pressure/wsgi.py", *INLINE),
}
"""What to serve, and its options, by the interface."""


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait for something that can only be asked for again and again."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)


def head(method: str, path: str, *fields: str, version: str = "1.1") -> bytes:
    """Return the head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: test", *fields, "", ""]).encode()


def connect(server: Server, receive_buffer_bytes: int) -> Connection:
    """Connect with a small receive buffer: the server sees at once that nothing is read."""
    return Connection(server.address, receive_buffer_bytes=receive_buffer_bytes)


def seen(client: Connection, name: str) -> Any:
    """Ask the application what it has noted."""
    return client.get("/seen").json()[name]


def wait_held(client: Connection, count: int = 1) -> None:
    """Wait until so many requests wait for a release."""
    until(lambda: seen(client, "held") == count)


def release(client: Connection) -> None:
    """Let those requests go on."""
    assert client.get("/release").content == b"released"


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Keep the worker from running, so that all that happens meanwhile is ready at once."""
    (worker,) = server.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        until(lambda: state(worker) == "T")
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def state(pid: int) -> str:
    """Return the letter of a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def resident_bytes(server: Server) -> int:
    """Return how much memory the worker has in use."""
    fields = Path(f"/proc/{server.workers()[0]}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def reset(client: Connection) -> None:
    """Close a connection with a reset."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def is_reset(client: Connection, within_s: float) -> bool:
    """Wait for a reset without reading what came before it; return whether it came."""
    poll = select.poll()
    poll.register(client.socket, 0)  # errors are always reported
    return bool(poll.poll(within_s * 1000))


def is_silent(client: Connection, for_s: float) -> bool:
    """Let a time pass; return whether neither a byte nor an end came in it."""
    return not select.select([client.socket], [], [], for_s)[0]
