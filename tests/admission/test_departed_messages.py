"""Messages of WebSocket clients that have left count as memory that clients take."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from support.management import Managed
from support.peer import reset
from support.server import Start
from support.waiting import wait_until
from support.websocket import BINARY, WebSocket, connect, frame

pytestmark = pytest.mark.slow

APP = """
import asyncio
from bolide import App

app = App()
gate = asyncio.Event()

@app.websocket("/take")
async def take(ws):
    await ws.accept()
    await gate.wait()
    async for message in ws:
        pass

@app.websocket("/leave")
async def leave(ws):
    await ws.accept()
    await gate.wait()

@app.get("/open")
async def open_gate(request):
    gate.set()
    return "open"
"""
SIZE = 4 << 20
SHORT = frame(BINARY, bytes(60_000))
HELD = "bolide_held_bytes"
RECEIVED = 'bolide_websocket_messages_total{direction="received"}'


def say_much(socket: WebSocket, size: int = SIZE) -> None:
    """Send a message whose mask changes nothing."""
    head = struct.pack("!BBQ", 0x80 | BINARY, 0x80 | 127, size)
    socket.send(head + bytes(4) + bytes(size))


@pytest.mark.parametrize("path", ["/take", "/leave"])
def test_what_the_application_has_not_taken_is_counted(
    start: Start, tmp_path: Path, path: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    managed = Managed(start, "app:app", "--memory-max", "64M", cwd=tmp_path)
    with connect(managed.server) as socket:
        socket.open(path)
        say_much(socket)
        wait_until(lambda: managed.metrics()[RECEIVED] == 1)
        reset(socket)
    wait_until(lambda: managed.metrics()["bolide_connections"] == 0)
    # The client has left, its message has not.
    assert SIZE <= managed.metrics()[HELD] < 2 * SIZE
    with managed.server.connect() as client:
        assert client.get("/open").content == b"open"
    wait_until(lambda: managed.metrics()[HELD] == 0)


def test_new_work_is_refused_while_such_messages_are_held(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    managed = Managed(start, "app:app", "--memory-max", "24M", cwd=tmp_path)
    for number in range(1, 5):
        with connect(managed.server) as socket:
            socket.open("/take")
            say_much(socket)
            wait_until(lambda count=number: managed.metrics()[RECEIVED] == count)
            reset(socket)
    statuses = []
    for _ in range(80):
        with connect(managed.server) as socket:
            socket.ask("/take")
            statuses.append(socket.read_head().status)
            socket.send(SHORT)
            if statuses[-1] == 101:  # otherwise its end may come first
                count = 4 + statuses.count(101)
                wait_until(lambda count=count: managed.metrics()[RECEIVED] == count)
    # From 13/16 of the budget on, no WebSocket is opened.
    assert 40 < statuses.count(101) < 70 and statuses[-1] == 503
    wait_until(lambda: managed.metrics()["bolide_connections"] == 0)
    assert managed.metrics()[HELD] > 13 * (24 << 20) // 16
    # Only a content of at most 1/64 of what is left is read.
    for length, status in ((9, 405), (200_000, 503)):
        with managed.server.connect() as client:
            client.send(b"POST /open HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % length)
            assert client.read().status == status
    with managed.server.connect() as client:
        assert client.get("/open").status == 200
    wait_until(lambda: managed.metrics()[HELD] == 0)
