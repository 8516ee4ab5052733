"""A server of the plain WSGI application: with the pool of threads, and inline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import APPLICATIONS
from reply import Connection
from running import Server

THREADS = ("8", "1")


@pytest.fixture(scope="module", params=THREADS)
def threads(request: pytest.FixtureRequest) -> str:
    """Name a number of threads."""
    count: str = request.param
    return count


@pytest.fixture(scope="module")
def server(threads: str) -> Iterator[Server]:
    """Serve the plain application."""
    server = Server(["wsgi_plain.py", "--port", "0", "--threads", threads], APPLICATIONS)
    server.wait_ready()
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client
