"""A server of the plain WSGI application: with the pool of threads, and inline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import APPLICATIONS
from reply import Connection
from running import Server

WAYS = {
    "pool": ("--threads", "8"),
    "pool-uvloop": ("--threads", "8", "--loop", "uvloop"),
    "inline": ("--threads", "1"),
    "inline-uvloop": ("--threads", "1", "--loop", "uvloop"),
}


@pytest.fixture(scope="module", params=WAYS)
def options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Give the options that say where the application runs."""
    name: str = request.param
    return WAYS[name]


@pytest.fixture(scope="module")
def threads(options: tuple[str, ...]) -> str:
    """Give the number of threads that call the application."""
    return options[1]


@pytest.fixture(scope="module")
def server(options: tuple[str, ...]) -> Iterator[Server]:
    """Serve the plain application."""
    server = Server(["wsgi_plain.py", "--port", "0", *options], APPLICATIONS)
    server.wait_ready()
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client
