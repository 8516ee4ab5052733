"""Clients that leave: streams end, handlers that ask are notified, nothing else changes."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from support.client import Connection
from support.loops import Serving
from support.server import Server

pytestmark = pytest.mark.slow

APP = "leaving/native.py"
STREAMS = [f"/stream/{how}" for how in ("1/event", "0/event", "1/group", "1/timeout")]
STREAMS += ["/stream-of-def"]
WAYS_TO_LEAVE = ("close", "shutdown", "reset")
BOUND_S = 15
"""For what is promised within a second: machines may be slow, and it is far below any timeout."""


@pytest.fixture
def server(serving: Serving) -> Iterator[Server]:
    server = serving(APP)
    ask(server, "/forget")
    return server


def ask(server: Server, path: str) -> bytes:
    with server.connect() as client:
        reply = client.get(path)
        assert reply.status == 200
        return reply.content


def wait_for(server: Server, *marks: str) -> list[str]:
    """Ask until these are the last to have ended; return everything that has."""
    end = time.monotonic() + BOUND_S
    with server.connect() as client:
        while True:
            ended: list[str] = client.get("/ended").json()
            if ended[-len(marks) :] == list(marks):
                return ended
            assert time.monotonic() < end, ended


def leave(client: Connection, how: str) -> None:
    """End a connection: by FIN at once, only its sending side, or by a reset."""
    if how == "shutdown":
        client.socket.shutdown(socket.SHUT_WR)
        return
    if how == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def head(path: str, method: str = "GET", fields: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n".encode()


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
@pytest.mark.parametrize(
    "path",
    [
        "/stream/1/event",
        "/stream/0/event",
        "/stream/1/group",
        "/stream/1/timeout",
        "/stream-of-def",
    ],
)
def test_a_generator_that_waits_ends_with_its_client(server: Server, path: str, how: str) -> None:
    with server.connect() as client:
        client.send(head(path))
        assert client.read_head().status == 200
        leave(client, how)
        assert wait_for(server, "finally") == ["cancelled", "finally"]


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
def test_an_iterator_that_waits_is_closed_with_its_client(server: Server, how: str) -> None:
    with server.connect() as client:
        client.send(head("/stream/0/object"))
        assert client.read_head().status == 200
        leave(client, how)
        wait_for(server, "finally")


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
@pytest.mark.parametrize("kind", ["generator", "object"])
def test_a_stream_to_a_client_that_has_left_ends_where_it_waits(
    server: Server, kind: str, how: str
) -> None:
    with server.connect() as client, server.connect() as asker:
        client.send(head(f"/stream-later/{kind}"))
        asker.send(head("/asks"))
        wait_for(server, "begun", "begun")
        leave(client, how)
        leave(asker, how)
        wait_for(server, "finally")  # by now the server has noticed both
        ask(server, "/go-on")
        if kind == "object":
            wait_for(server, "finally", "finally")
        elif how == "shutdown":
            wait_for(server, "finally", "cancelled", "finally")
        else:  # what was not begun when the connection was reset is only closed
            assert b"cancelled" not in ask(server, "/ended") or how == "close"


def test_what_a_generator_does_at_its_end_is_not_interrupted(server: Server) -> None:
    with server.connect() as client:
        client.send(head("/cleans-up"))
        assert client.read_head().status == 200
        leave(client, "shutdown")
        wait_for(server, "cleaning")
        leave(client, "reset")
        for _ in range(20):
            assert ask(server, "/ended") == b'["cleaning"]'
        ask(server, "/go-on")
        wait_for(server, "cleaning", "finally")


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
def test_a_task_that_waits_for_the_departure_takes_nothing_from_the_stream(
    server: Server, how: str
) -> None:
    with server.connect() as client:
        client.send(head("/helped"))
        assert client.read_head().status == 200
        leave(client, how)
        wait_for(server, "disconnected", "finally")


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
@pytest.mark.parametrize("path", ["/asks", "/awaits"])
def test_a_handler_can_ask_whether_its_client_is_there(server: Server, path: str, how: str) -> None:
    with server.connect() as client:
        client.send(head(path))
        assert wait_for(server, "begun") == ["begun"]
        leave(client, how)
        assert wait_for(server, "finally") == ["begun", "finally"]


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
def test_a_client_that_leaves_within_its_content_has_left(server: Server, how: str) -> None:
    with server.connect() as client:
        client.send(head("/awaits", "POST", "Content-Length: 100\r\n") + b"x")
        wait_for(server, "begun")
        leave(client, how)
        wait_for(server, "begun", "finally")


def test_an_ordinary_handler_goes_on_for_a_half_closed_client(server: Server) -> None:
    with server.connect() as client, server.connect() as asker:
        client.send(head("/whole"))
        wait_for(server, "begun")
        asker.send(head("/asks"))
        wait_for(server, "begun", "begun")
        leave(client, "shutdown")
        leave(asker, "shutdown")
        wait_for(server, "finally")  # by now the server has noticed both
        ask(server, "/go-on")
        reply = client.read()
        assert (reply.status, len(reply.content)) == (200, 3_000_000)
        wait_for(server, "left: True")


def test_a_half_closed_client_gets_back_all_that_it_sent(server: Server) -> None:
    content = b"x" * 300_000
    with server.connect() as client:
        client.send(head("/echo", "POST", f"Content-Length: {len(content)}\r\n") + content)
        leave(client, "shutdown")
        ask(server, "/go-on")
        assert client.read().content == content


@pytest.mark.parametrize("path", ["/leaves-a-task", "/leaves-a-task?wait=1"])
def test_a_task_that_waits_for_the_disconnect_gets_the_end_of_the_response(
    server: Server, path: str
) -> None:
    assert ask(server, path) == b"ok"
    wait_for(server, "finally")


def test_a_def_handler_has_nothing_to_await(server: Server) -> None:
    with server.connect() as client:
        asked = client.get("/asked-in-def").json()
        assert asked["before"] is False
        assert asked["error"].startswith("disconnected() is for async handlers")
        assert client.get("/asked-later").json() == [True]


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
def test_where_another_application_is_mounted(serving: Serving, how: str) -> None:
    server = serving("leaving/mounted.py")
    ask(server, "/forget")
    with server.connect() as client, server.connect() as asker:
        client.send(head("/stream/1/event"))
        assert client.read_head().status == 200
        leave(client, how)
        wait_for(server, "cancelled", "finally")
        asker.send(head("/awaits"))
        wait_for(server, "begun")
        leave(asker, how)
        wait_for(server, "begun", "finally")
