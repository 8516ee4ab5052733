"""Content that a handler never reads: it neither holds its connection nor the server's end."""

from __future__ import annotations

import signal
import time

import pytest

from protocol.pressure import APPLICATION, release, wait_held
from support.client import Connection
from support.request import head
from support.server import Server, Start
from support.worker import stopped

pytestmark = pytest.mark.slow

GRACE = ("--body-grace-ms", "500", "--linger-timeout-ms", "500")
# A thread is called before all of the content is there only if the content is long.
LATE = {**APPLICATION, "wsgi": (*APPLICATION["wsgi"], "--whole-content-bytes-max", "1")}
LENGTH, SENT = 60_000, 30_000
"""How long a content is, and how much of it is sent: the rest is short enough to be discarded."""
ENDS_WITHIN_S = 4

interfaces = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])


def early_response(
    server: Server, client: Connection, length: int = LENGTH, sent: int = SENT
) -> bool:
    """Have a request responded to whose content was read ahead; return whether it was the last.

    The head comes alone, and a part of the content while the handler waits.
    """
    with server.connect() as other:
        client.send(head("POST", "/held/5", f"Content-Length: {length}"))
        wait_held(other)
        with stopped(server):
            client.send(b"x" * sent)
        release(other)
    reply = client.read()
    assert (reply.status, reply.content) == (200, b"hhhhh")
    return reply.is_last


@interfaces
@pytest.mark.parametrize(("length", "sent"), [(LENGTH, SENT), (100_000, 65_536)])
def test_the_rest_is_discarded_and_the_next_request_is_served(
    start: Start, interface: str, length: int, sent: int
) -> None:
    server = start(*LATE[interface])
    with server.connect() as client:
        is_last = early_response(server, client, length, sent)
        client.socket.settimeout(ENDS_WITHIN_S)
        if is_last:
            assert client.is_closed()
        else:
            client.send(b"x" * (length - sent))
            assert client.get("/hello").content == b"hello"


@interfaces
def test_the_clients_end_ends_the_connection(start: Start, interface: str) -> None:
    server = start(*LATE[interface])
    with server.connect() as client:
        early_response(server, client)
        client.socket.shutdown(1)
        client.socket.settimeout(ENDS_WITHIN_S)
        assert client.is_closed()
        server.signal(signal.SIGTERM)
        assert server.process.wait(timeout=ENDS_WITHIN_S) == 0


@interfaces
def test_the_server_ends_with_such_a_connection_open(start: Start, interface: str) -> None:
    server = start(*LATE[interface], *GRACE)
    with server.connect() as client:
        early_response(server, client)
        server.signal(signal.SIGTERM)
        assert server.process.wait(timeout=ENDS_WITHIN_S) == 0


@interfaces
def test_the_rest_has_a_deadline(start: Start, interface: str) -> None:
    server = start(*LATE[interface], *GRACE, "--body-rate-bytes-per-s-min", "1000000")
    with server.connect() as client:
        early_response(server, client)
        client.socket.settimeout(ENDS_WITHIN_S)
        assert client.is_closed()


@interfaces
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_content_that_never_comes_has_a_deadline(start: Start, interface: str, method: str) -> None:
    server = start(*LATE[interface], *GRACE)
    with server.connect() as client:
        begin = time.monotonic()
        client.send(head(method, "/early", "Content-Length: 2"))
        reply = client.read()
        assert (reply.status, reply.content) == (200, b"early")
        client.socket.settimeout(ENDS_WITHIN_S)
        assert client.is_closed()
        assert reply.is_last or time.monotonic() - begin > 0.4
