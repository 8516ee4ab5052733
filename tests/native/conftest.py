"""Servers that several tests of a module ask, one for each event loop and application."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from running import Server

APPLICATIONS = Path(__file__).parents[1] / "applications"
LOOPS = ("asyncio", "uvloop")
Serving = Callable[..., Server]


@pytest.fixture(scope="module", params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    """Name an event loop."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def serving(loop: str) -> Iterator[Serving]:
    """Give a function that serves an application on that loop, once for the whole module."""
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


def probes(file: str) -> list[str]:
    """Return the names of the checks in an application."""
    tree = ast.parse((APPLICATIONS / file).read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef)
        and any(isinstance(each, ast.Name) and each.id == "probe" for each in node.decorator_list)
    ]
