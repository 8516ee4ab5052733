"""Clients of HTTP/2 for the server of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.client import Connection
from support.h2 import Client, Connect
from support.server import Server, Start


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that opens a connection to a server; all are closed with the test."""
    with ExitStack() as stack:

        def connect(server: Server, values: dict[int, int] | None = None) -> Client:
            return stack.enter_context(Client(Connection(server.address), values))

        yield connect


@pytest.fixture
def server(start: Start) -> Server:
    """Serve the native application with HTTP/2 without TLS."""
    return start("h2/native.py", "--h2c")
