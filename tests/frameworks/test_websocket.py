"""The same WebSockets on every framework."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import Server, Start
from support.websocket import (
    BINARY,
    CLOSE,
    TEXT,
    Frame,
    WebSocket,
    close_frame,
    closing,
    connect,
    frame,
    handshake,
    text,
)

pytestmark = pytest.mark.slow

FRAMEWORKS = ["starlette", "fastapi", "litestar", "quart"]


@pytest.fixture(params=[*FRAMEWORKS, "starlette --loop uvloop", "fastapi --eager-tasks off"])
def server(request: pytest.FixtureRequest, serve: Start) -> Server:
    """Serve a framework's application."""
    name, *options = request.param.split()
    return serve(f"sockets_on_{name}.py", *options)


@pytest.fixture
def socket(server: Server) -> Iterator[WebSocket]:
    """Connect to it."""
    with connect(server) as socket:
        yield socket


def test_an_echo(socket: WebSocket) -> None:
    reply = socket.open("/echo/you?q=1", "Sec-WebSocket-Protocol: other, chat")
    assert reply.get("sec-websocket-protocol") == "chat"
    assert socket.frame() == text("you 1")
    socket.send(frame(TEXT, "one") + frame(BINARY, b"\xff") + frame(TEXT, "three"))
    assert [socket.frame() for _ in range(3)] == [
        text("one"),
        Frame(BINARY, b"\xff"),
        text("three"),
    ]
    socket.say("close")
    assert socket.frame() == closing(4000, "done")
    socket.send(close_frame(4000))
    assert socket.is_closed()


def test_a_client_that_closes(socket: WebSocket) -> None:
    socket.open("/echo/you?q=1")
    assert socket.frame() == text("you 1")
    socket.send(close_frame(1000))
    assert socket.frame() == closing(1000)
    assert socket.is_closed()


@pytest.mark.parametrize(("path", "status"), [("/refuse", 403), ("/deny", 401), ("/nowhere", 404)])
def test_a_refusal(server: Server, socket: WebSocket, path: str, status: int) -> None:
    socket.send(handshake(path))
    reply = socket.read()
    assert reply.status in (status, 403)  # not every framework uses a response of its own


def test_parameters_that_fastapi_refuses(start: Start) -> None:
    server = start("sockets_on_fastapi.py", cwd=Path(__file__).with_name("applications"))
    with connect(server) as socket:
        socket.send(handshake("/echo/you"))  # without q
        reply = socket.read()
    assert (reply.status, reply.content) == (403, b"")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors


def test_a_handler_that_raises(socket: WebSocket) -> None:
    socket.open("/fail")
    closed = socket.frame()
    assert closed.opcode == CLOSE
    assert int.from_bytes(closed.content[:2], "big") in (1000, 1011, 4500)
