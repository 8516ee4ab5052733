"""Starts the servers that are compared, and asks them for what a program observes."""

from __future__ import annotations

import contextlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from differential.programs.table import PROGRAMS
from support.client import Connection
from support.server import Server

FOLDER = Path(__file__).parents[1]
APPLICATION = "differential.application:app"


@dataclass(frozen=True)
class Kind:
    """How a server is started."""

    server: type[Server]
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def start(self) -> Server:
        """Start one."""
        arguments = [APPLICATION, "--port", "0", *self.options]
        return self.server(arguments, FOLDER, dict(self.env)).wait_ready()


class Uvicorn(Server):
    """A running uvicorn."""

    program = ("-m", "uvicorn", "--http", "h11", "--no-access-log")

    def wait_ready(self) -> Uvicorn:
        """Wait until it says that it serves."""
        self.urls = [self.wait_line(ADDRESS.pattern)[1]]
        return self


DEBUG = (("DIFFERENTIAL_DEBUG", "1"),)
"""What makes the application set the loop's debug mode; uvicorn ignores asyncio's own variable."""
ON_ASYNCIO = Kind(Uvicorn, ("--loop", "asyncio"))
ON_UVLOOP = Kind(Uvicorn, ("--loop", "uvloop"))
IN_DEBUG_MODE = Kind(Uvicorn, ("--loop", "asyncio"), DEBUG)
VARIANTS = {
    "eager": (Kind(Server), ON_ASYNCIO),
    "uvloop": (Kind(Server, ("--loop", "uvloop")), ON_UVLOOP),
    "debug": (Kind(Server, (), DEBUG), IN_DEBUG_MODE),
}
"""Ways of running Bolide, and what each is compared with. Tasks are eager by default."""
STAGES = ("first", "later")
"""Whether the request has been suspended before."""
ADDRESS = re.compile(r"Uvicorn running on (http://\S+)")
CUT = "cut"
"""What is seen where a connection ends before its response does."""


def observe(server: Server, name: str, stage: str) -> list[Any]:
    """Run a program for its rounds; return what each of its requests got, round by round."""
    program = PROGRAMS[name]
    paths = [f"/{stage}/{name}?number={number}" for number in range(program.together)]
    rounds: list[Any] = []
    with Clients(server, program.together) as clients:
        for _ in range(max(program.rounds - 1, 1)):
            rounds.append(clients.ask(paths))
    if program.rounds > 1:
        with Clients(server, program.together) as clients:
            rounds.append(clients.ask(paths))
    return [each[0] for each in rounds] if program.together == 1 else rounds


class Clients(contextlib.ExitStack):
    """Connections on which requests are sent at the same time."""

    def __init__(self, server: Server, count: int) -> None:
        super().__init__()
        self._server = server
        self._clients = [self.enter_context(server.connect()) for _ in range(count)]

    def ask(self, paths: list[str]) -> list[Any]:
        """Send one request on each connection; return what came back, in this order."""
        if len(paths) == 1:
            return [self._ask(0, paths[0])]
        with Held(self._server):
            for client, path in zip(self._clients, paths, strict=True):
                client.send(request(path))
        return [self._read(index) for index in range(len(paths))]

    def _ask(self, index: int, path: str) -> Any:
        self._clients[index].send(request(path))
        return self._read(index)

    def _read(self, index: int) -> Any:
        try:
            reply = self._clients[index].read()
        except (AssertionError, ConnectionError):
            reply = None
        if reply is None or reply.is_last:
            self._clients[index].socket.close()
            self._clients[index] = self.enter_context(self._server.connect())
        if reply is None:
            return CUT
        return reply.json() if reply.status == 200 else reply.status


class Held:
    """Blocks the server's loop in a handler, so that what is sent meanwhile is read in one pass."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self._client: Connection = self._server.connect()
        self._client.send(request(f"/hold/{self._listener.getsockname()[1]}"))
        self._connection, _ = self._listener.accept()

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._listener.close()
        with self._client:
            assert self._client.read().content == b"held"


def request(path: str) -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()
