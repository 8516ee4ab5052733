"""One server for each application of the frameworks, started when a test of a module first asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import Server, Start

FOLDER = Path(__file__).parent / "applications"


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a function that serves TARGET OPTIONS... for all tests of the module that ask."""
    servers: dict[tuple[str, ...], Server] = {}

    def serve(*arguments: str) -> Server:
        if arguments not in servers:
            env = {"DATABASE_FOLDER": str(tmp_path_factory.mktemp("database"))}
            servers[arguments] = Server([*arguments, "--port", "0"], FOLDER, env)
            servers[arguments].wait_ready()
        return servers[arguments]

    yield serve
    for server in servers.values():
        server.close()
