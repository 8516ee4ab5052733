"""A peer that goes while it is sent a file, where the application lets SIGPIPE do something."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

APP = "behaviour/sigpipe.py:app"
EXTENSIONS = ("--asgi-extensions", "pathsend")


@pytest.mark.parametrize("action", ["default", "handler", "ignore"])
@pytest.mark.parametrize("is_local", [False, True])
def test_gone_peer_raises_no_signal(
    start: Start, tmp_path: Path, action: str, is_local: bool
) -> None:
    where = ("--uds", str(tmp_path / "socket")) if is_local else ()
    server = start(APP, *EXTENSIONS, *where, env={"SIGPIPE": action})
    with server.connect() as client:
        before = client.get("/pid").content
    for _ in range(5):
        with server.connect() as client:
            client.send(b"GET /file HTTP/1.1\r\nHost: test\r\n\r\n")
            client.read_head()
            # What then resets a TCP connection is reported as a broken pipe.
            client.socket.shutdown(socket.SHUT_WR)
        with server.connect() as client:
            assert client.get("/pid").content == before
    server.close()
    assert "SIGPIPE" not in server.errors


@pytest.mark.parametrize("action", ["default", "ignore"])
def test_file_arrives_whole(start: Start, action: str) -> None:
    server = start(APP, *EXTENSIONS, env={"SIGPIPE": action})
    parts = []
    with server.connect() as client:
        client.send(b"GET /file HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        while part := client.socket.recv(1 << 20):
            parts.append(part)
    head, _, content = b"".join(parts).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert content == bytes(64 << 20)
