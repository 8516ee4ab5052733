"""A client that sends many messages at once gets turns: others are served between its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support import h2
from support.loops import Serving
from support.server import Server
from support.waiting import wait_until
from support.websocket import TEXT, close_frame, connect, frame

pytestmark = pytest.mark.slow

MESSAGES = 150
"""They keep a handler for 600 ms."""
STREAMS = 30
MOST_IN_A_TURN = 12
"""A handler has two shares of 10 ms between turns of the loop at most, and a message takes 4 ms."""

Send = Callable[[bytes], None]
TEXTS = [str(number) for number in range(MESSAGES)]
BURST = b"".join(frame(TEXT, each) for each in TEXTS)


@pytest.fixture(scope="module", params=["on", "off"])
def eager_tasks(request: pytest.FixtureRequest) -> str:
    """Choose whether requests share tasks."""
    value: str = request.param
    return value


@pytest.fixture(scope="module")
def server(serving: Serving, eager_tasks: str) -> Server:
    """Serve the application."""
    return serving("sockets/slow.py", "--h2c", "--eager-tasks", eager_tasks)


def open_stream(client: h2.Client, stream: int, path: str) -> None:
    """Open a WebSocket on a stream (RFC 8441)."""
    protocol, version = (b":protocol", b"websocket"), (b"sec-websocket-version", b"13")
    fields = h2.request_fields("CONNECT", path, protocol, version)
    client.send(h2.headers(stream, fields, is_last=False))
    client.read_until(h2.Kind.HEADERS, stream)
    assert client.messages[stream].status == 200


@contextmanager
def over_h1(server: Server, path: str) -> Iterator[Send]:
    """Open a WebSocket over HTTP/1.1."""
    with connect(server) as socket:
        socket.open(path)
        yield socket.send


@contextmanager
def over_h2(server: Server, path: str) -> Iterator[Send]:
    """Open a WebSocket over HTTP/2."""
    with h2.Client(server.connect()) as client:
        open_stream(client, 1, path)
        yield lambda content: client.send(h2.data(1, content))


OPENED = {"h1": over_h1, "h2": over_h2}


def record(server: Server) -> dict[str, Any]:
    """Return what the application has recorded, as a client that others delay would get it."""
    with server.connect() as victim:
        found: dict[str, Any] = victim.get("/record").json()
        return found


def expect_turns(server: Server) -> dict[str, Any]:
    """Check that others are served before all messages are handled, and that all are in the end."""
    assert len(record(server)["messages"]) < MESSAGES
    wait_until(lambda: len(record(server)["messages"]) == MESSAGES)
    recorded = record(server)
    assert recorded["messages"] == TEXTS
    assert recorded["most_in_a_turn"] <= MOST_IN_A_TURN
    return recorded


@pytest.mark.parametrize("protocol", ["h1", "h2"])
@pytest.mark.parametrize("path", ["/iterate", "/asgi/"])
def test_many_messages_of_one_client_delay_nobody(server: Server, path: str, protocol: str) -> None:
    with OPENED[protocol](server, path) as send:
        send(BURST)
        expect_turns(server)


@pytest.mark.parametrize("path", ["/collect", "/asgi/"])
def test_a_client_that_has_left_gets_no_more(server: Server, path: str) -> None:
    with over_h1(server, path) as send:
        send(BURST + close_frame(4000))
        expect_turns(server)
    wait_until(lambda: record(server)["end"] == 4000)


@pytest.mark.parametrize("path", ["/deaf", "/deaf-iteration", "/asgi/deaf"])
def test_who_ignores_that_a_client_has_left_delays_nobody(server: Server, path: str) -> None:
    with over_h1(server, path) as send:
        send(close_frame(1000))
    wait_until(lambda: record(server)["ends"] > 1)
    with server.connect() as victim:
        victim.get("/released")
    wait_until(lambda: record(server)["is_released"])


def test_responses_keep_their_order(server: Server) -> None:
    with connect(server) as socket:
        socket.open("/iterate")
        socket.send(BURST)
        assert [socket.frame().content.decode() for _ in TEXTS] == TEXTS


def test_a_wait_for_a_turn_that_is_cancelled_loses_nothing(server: Server) -> None:
    with over_h1(server, "/cancelled") as send:
        send(BURST)
        expect_turns(server)
        send(frame(TEXT, "end"))


def test_the_streams_of_one_client_share_its_turns(server: Server) -> None:
    each = b"".join(frame(TEXT, str(number)) for number in range(MESSAGES // STREAMS))
    streams = range(3, 3 + 2 * STREAMS, 2)
    with h2.Client(server.connect()) as client:
        open_stream(client, 1, "/gather?first=1")
        for stream in streams:
            open_stream(client, stream, "/gather")
        client.send(*(h2.data(stream, each) for stream in streams))
        assert len(record(server)["messages"]) < MESSAGES
        wait_until(lambda: len(record(server)["messages"]) == MESSAGES)
        assert record(server)["most_in_a_turn"] <= MOST_IN_A_TURN
        client.send(h2.data(1, frame(TEXT, "end")))
