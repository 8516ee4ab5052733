"""Fixtures: servers that all tests of a module share, one for each event loop and application."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.server import APPLICATIONS, Server

LOOPS = ("asyncio", "uvloop")
Serving = Callable[..., Server]


@pytest.fixture(scope="module", params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    """Name an event loop."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def serving(loop: str) -> Iterator[Serving]:
    """Return a function that serves an application on that loop, once for the whole module."""
    servers: dict[tuple[str, ...], Server] = {}

    def serving(target: str, *options: str) -> Server:
        key = (target, *options)
        if key not in servers:
            arguments = [target, "--port", "0", "--loop", loop, *options]
            servers[key] = Server(arguments, APPLICATIONS)
            servers[key].wait_ready()
        return servers[key]

    yield serving
    for server in servers.values():
        server.close()
