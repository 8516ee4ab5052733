"""What other threads do while the server has the application's thread."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bolide._core import Server
from bolide.config.settings import resolve
from bolide.interface import application

FILE_BYTES = 1 << 20
PATIENCE_S = 20


@pytest.fixture
def no_switches() -> Iterator[None]:
    """Have a thread give the interpreter up only where it says so."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    yield
    sys.setswitchinterval(before_s)


def fetch(client: socket.socket, is_over: threading.Event) -> None:
    """Ask for the file again and again."""
    while not is_over.is_set():
        client.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        head, _, content = client.recv(4096).partition(b"\r\n\r\n")
        assert b"Content-Length: %d" % FILE_BYTES in head
        left = FILE_BYTES - len(content)
        while left:
            left -= len(client.recv(min(left, 65_536)))


def meddle(server: Server) -> list[str]:
    """Call the server until it is found busy, and then what else it has for Python."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        with suppress(ValueError):  # -1 is no descriptor
            try:
                server.adopt(-1)
            except RuntimeError as error:
                server.poll()
                return [str(error), str(server.connections)]
        time.sleep(0)
    return []


@pytest.mark.usefixtures("no_switches")
def test_threads_run_while_a_file_is_sent_and_find_the_server_busy(tmp_path: Path) -> None:
    """Sending from a file may wait for a disk, so it is done without the interpreter."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * FILE_BYTES)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # Nothing here gives the interpreter up: the server opens the file.
        headers = [(b"content-length", b"%d" % FILE_BYTES)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.pathsend", "path": str(path)})

    settings = resolve({"asgi_extensions": ["pathsend"]})
    server = Server(application(app, "test:app", settings).core(), settings.server_options(None))
    client, connection = socket.socketpair()
    client.settimeout(PATIENCE_S)

    async def main() -> list[str]:
        loop, is_over = asyncio.get_running_loop(), threading.Event()
        server.attach(loop, own_selector=False)
        server.adopt(connection.fileno())
        fetching = loop.run_in_executor(None, fetch, client, is_over)
        seen = await loop.run_in_executor(None, meddle, server)
        is_over.set()
        await fetching
        server.stop()
        return seen

    with client, connection, asyncio.Runner() as runner:
        seen = runner.run(main())
    assert seen == ["the server is busy: this cannot be called from inside a handler", "1"]
