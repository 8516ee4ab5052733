"""One connection's batch of requests leaves the worker to other clients, timers and signals."""

from __future__ import annotations

import signal
from contextlib import ExitStack

import pytest

from protocol.pressure import APPLICATION
from support.client import Connection
from support.request import head
from support.server import Start
from support.worker import stopped

pytestmark = pytest.mark.slow

COUNT = 300
BLOCKING_MS = 10
SHARE_MAX = 100
"""How many requests of the batch may be served before another client's; a turn is 10 ms."""

KINDS = {
    "native": (APPLICATION["native"], "/block"),
    "native, coroutine": (APPLICATION["native"], "/block-later"),
    "asgi": (APPLICATION["asgi"], "/block"),
    "wsgi, inline": (APPLICATION["wsgi, inline"], "/block"),
}
"""What to serve, and the path of a handler that blocks the worker."""


def batch(path: str) -> bytes:
    """Return pipelined requests, each with its number."""
    return b"".join(head("GET", f"{path}/{BLOCKING_MS}/{number}") for number in range(COUNT))


def with_content(requests: bytes) -> bytes:
    """Return the requests, each with an empty chunked content."""
    chunked = b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    return requests.replace(b"\r\n\r\n", chunked)


NUMBERS = [b"%d" % number for number in range(COUNT)]


SEEN = head("GET", "/seen")


def blocked_before(client: Connection) -> int:
    """Return how many requests of the batch were served before the one that this client sent."""
    count: int = client.read().json()["blocked"]
    return count


def has_timer(kind: str) -> bool:
    """Return whether the application runs a timer: one of WSGI has no event loop."""
    return "wsgi" not in kind


@pytest.mark.parametrize("kind", KINDS)
def test_another_client_and_timers_have_their_turn(start: Start, kind: str) -> None:
    target, path = KINDS[kind]
    server = start(*target)
    with server.connect() as greedy, server.connect() as other:
        greedy.get("/hello")
        other.get("/gap" if has_timer(kind) else "/hello")
        with stopped(server):
            greedy.send(batch(path))
            other.send(SEEN)
        assert blocked_before(other) < SHARE_MAX
        assert [greedy.read().content for _ in range(COUNT)] == NUMBERS
        assert not has_timer(kind) or int(other.get("/gap").content) < SHARE_MAX


def test_requests_with_content_leave_others_their_turn(start: Start) -> None:
    target, path = KINDS["native"]
    server = start(*target)
    with server.connect() as greedy, server.connect() as other:
        other.get("/hello")
        with stopped(server):
            greedy.send(with_content(batch(path)))
            other.send(SEEN)
        assert blocked_before(other) < SHARE_MAX
        assert [greedy.read().content for _ in range(COUNT)] == NUMBERS


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_connects_is_served_meanwhile(start: Start, kind: str) -> None:
    target, path = KINDS[kind]
    server = start(*target)
    with ExitStack() as clients:
        greedy = clients.enter_context(server.connect())
        greedy.get("/hello")
        with stopped(server):
            greedy.send(batch(path))
            others = [clients.enter_context(server.connect()) for _ in range(3)]
            for other in others:
                other.send(SEEN)
        for other in others:
            assert blocked_before(other) < SHARE_MAX
        assert [greedy.read().content for _ in range(COUNT)] == NUMBERS


@pytest.mark.parametrize("kind", list(filter(has_timer, KINDS)))
def test_a_batch_that_waited_for_a_response_leaves_others_their_turn(
    start: Start, kind: str
) -> None:
    """The batch is in the server's memory already when it is begun."""
    target, path = KINDS[kind]
    server = start(*target)
    with server.connect() as greedy, server.connect() as other:
        other.get("/gap")
        with stopped(server):
            greedy.send(head("POST", "/early") + batch(path))
            other.send(SEEN)
        assert blocked_before(other) < SHARE_MAX
        assert greedy.read().content == b"early"
        assert [greedy.read().content for _ in range(COUNT)] == NUMBERS
        assert int(other.get("/gap").content) < SHARE_MAX


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_ends_when_the_server_drains(start: Start, kind: str) -> None:
    target, path = KINDS[kind]
    server = start(*target)
    with server.connect() as greedy:
        greedy.get("/hello")
        greedy.send(batch(path))
        server.signal(signal.SIGTERM)
        contents = []
        is_last = False
        while not is_last:
            reply = greedy.read()
            contents.append(reply.content)
            is_last = reply.is_last
        assert contents == NUMBERS[: len(contents)]
        assert len(contents) < COUNT
    assert server.wait() == 0
