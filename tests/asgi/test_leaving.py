"""Clients that leave, and clients that only send no more (points 16, 26, 27 and 28)."""

from __future__ import annotations

import socket
import time

import pytest

from asgi.held import Seen, release
from support.client import Connection
from support.loops import Serving
from support.peer import end
from support.request import head
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/leaving.py"
LEARNS_S = 8.0
"""For what takes a second at most: machines may be slow, and it is far below any timeout."""
PARTS = 30
"""They take longer than a client is waited for that sends no more."""

WAYS = pytest.mark.parametrize("way", ["end", "reset"])


def leave(server: Server, seen: Seen, request: bytes, way: str) -> float:
    """Send a request, leave when it is being served, and give how long it goes on then."""
    begun, ended = seen("begun"), seen("ended")
    client = server.connect()
    client.send(request)
    wait_until(lambda: seen("begun") == begun + 1)
    end(client, way)
    left = time.monotonic()
    wait_until(lambda: seen("ended") == ended + 1)
    return time.monotonic() - left


def assert_nothing_is_logged(server: Server) -> None:
    """Look at the log, of which everything has arrived when a marker has."""
    with server.connect() as client:
        client.get("/no-such-kind")
    server.wait_line("KeyError: 'no-such-kind'")
    lines = "".join(server.lines)
    expected = lines.count("GET /no-such-kind: the application raised")
    assert lines.count("Traceback") == lines.count("ERROR") == expected
    assert "WARN" not in lines


def assert_is_learnt(server: Server, seen: Seen, request: bytes, way: str) -> None:
    """Send a request and leave: the application learns it soon, and nothing is logged."""
    assert leave(server, seen, request, way) < LEARNS_S
    assert_nothing_is_logged(server)


@WAYS
@pytest.mark.parametrize("sent", ["nothing", "start", "part"])
def test_16_an_application_that_only_receives_learns_that_its_client_has_gone(
    server: Server, seen: Seen, sent: str, way: str
) -> None:
    assert_is_learnt(server, seen, head("GET", f"/waits/{sent}"), way)


@WAYS
def test_28_an_application_that_only_sends_learns_it_too(
    server: Server, seen: Seen, way: str
) -> None:
    assert_is_learnt(server, seen, head("GET", "/sends"), way)
    assert seen("sends") == "ClientDisconnected"


@WAYS
@pytest.mark.parametrize("pace", ["pausing", "flooding"])
def test_28_one_that_does_both_has_one_notice(
    server: Server, seen: Seen, pace: str, way: str
) -> None:
    assert_is_learnt(server, seen, head("GET", f"/both/{pace}"), way)


@WAYS
def test_28_one_that_goes_on_sending_after_the_notice_has_another(
    server: Server, seen: Seen, way: str
) -> None:
    leave(server, seen, head("GET", "/deaf"), way)
    assert seen("deaf") == "ClientDisconnected"
    assert_nothing_is_logged(server)


@WAYS
@pytest.mark.parametrize("first", ["incomplete", "complete"])
def test_26_another_response_is_ignored_when_the_client_has_gone(
    server: Server, seen: Seen, first: str, way: str
) -> None:
    assert_is_learnt(server, seen, head("GET", f"/again/{first}"), way)


@WAYS
def test_27_an_exception_for_a_disconnect_is_no_error(server: Server, seen: Seen, way: str) -> None:
    request = head("POST", "/upload", "Content-Length: 9") + b"half"
    assert_is_learnt(server, seen, request, way)


def ask_and_end(server: Server, request: bytes) -> Connection:
    """Send a request, and that nothing follows, as `nc -N` does."""
    client = server.connect()
    client.send(request)
    client.socket.shutdown(socket.SHUT_WR)
    return client


@pytest.mark.parametrize("seconds", [0, 0.3, 4])
def test_16_a_client_that_sends_no_more_gets_its_whole_response(
    server: Server, seen: Seen, seconds: float
) -> None:
    with ask_and_end(server, head("GET", f"/late/{seconds}")) as client:
        assert client.read().content == b"late"
        assert client.is_closed()
    if seconds == 4:
        wait_until(lambda: 0.4 < seen("received after") < LEARNS_S)


def test_16_a_client_that_takes_part_after_part_is_there(server: Server) -> None:
    with ask_and_end(server, head("GET", f"/watched/{PARTS}")) as client:
        assert client.read().content == b"part" * PARTS


@pytest.mark.parametrize("when", ["first", "later"])
def test_20_a_response_that_has_begun_has_no_handler_timeout(serving: Serving, when: str) -> None:
    server = serving(APP, "--handler-timeout-ms", "300")
    with server.connect() as client, server.connect() as other:
        client.send(head("GET", f"/slow/{when}"))
        other.send(head("GET", "/waits/nothing"))
        # Their time is over together.
        assert other.read().status == 503
        release(server)
        assert client.read().content == b"content"
