"""A server of the plain WSGI application: with the pool of threads, and inline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.client import Connection
from support.embedding import EmbeddingProgram
from support.server import APPLICATIONS, Server

WAYS = {
    "pool": ("8", ""),
    "inline": ("1", ""),
    "pool-in-asyncio": ("8", "asyncio"),
    "pool-in-uvloop": ("8", "uvloop"),
    "inline-in-asyncio": ("1", "asyncio"),
    "inline-in-uvloop": ("1", "uvloop"),
}
"""Threads, and the loop of others inside of which it is served."""


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Say where the application runs."""
    name: str = request.param
    return WAYS[name]


@pytest.fixture(scope="module")
def threads(way: tuple[str, str]) -> str:
    """Return the number of threads that call the application."""
    return way[0]


@pytest.fixture(scope="module")
def server(way: tuple[str, str]) -> Iterator[Server]:
    """Serve the plain application."""
    threads, loop = way
    if loop:
        server: Server = EmbeddingProgram([threads, loop], APPLICATIONS)
    else:
        server = Server(["wsgi_plain.py", "--port", "0", "--threads", threads], APPLICATIONS)
    server.wait_ready()
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client
