"""What the tests of ASGI share: an application on both event loops, and what it has seen.

Each test's name begins with the number of the point that it proves:

1-11 the scope, 12-19 `receive`, 20-33 `send` and the end of the application, 43-45 the lifespan.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from native.conftest import Serving, loop, serving
from reply import Connection
from running import Server

__all__ = ["Serving", "loop", "serving"]

PATIENCE_S = 10
Seen = Callable[[str], Any]


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, serving: Serving) -> Server:
    """Serve the module's application, which its APP names, with its OPTIONS on an event loop."""
    return serving(request.module.APP, *getattr(request.module, "OPTIONS", ()))


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client


@pytest.fixture
def seen(server: Server) -> Seen:
    """Give a function that asks what the application has noted under a name."""

    def seen(name: str) -> Any:
        with server.connect() as client:
            return client.get("/seen").json().get(name, 0)

    return seen


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Ask again and again until it is so."""
    give_up = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"


def wait_held(seen: Seen, before: int) -> None:
    """Wait until one more request is held."""
    wait_until(lambda: seen("held") == before + 1)


def release(server: Server) -> None:
    """Let those go on that are held."""
    with server.connect() as client:
        assert client.get("/release").content == b"released"


def head(method: str, path: str, *fields: str) -> bytes:
    """Give the head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *fields, "", ""]).encode()


def upload(path: str, content: bytes) -> bytes:
    """Give a request with a content of known length."""
    return head("POST", path, f"Content-Length: {len(content)}") + content


def end(client: Connection, way: str) -> None:
    """End a connection in one of the ways in which clients do."""
    if way == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
