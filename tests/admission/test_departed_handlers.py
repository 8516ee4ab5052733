"""A handler whose client has left before its response started keeps its deadline."""

from __future__ import annotations

import pytest

from support import h2, peer
from support.h2 import Client
from support.server import Server, Start

pytestmark = pytest.mark.slow

TIMEOUT_MS = 500
LATE = (
    rf"GET /waits: no response within {TIMEOUT_MS} ms \(handler_timeout_ms\): "
    "cancelled; its client has left"
)
MODES = [("asyncio", "on"), ("asyncio", "off"), ("uvloop", "on"), ("uvloop", "off")]


def serve(start: Start, target: str, *options: str) -> Server:
    """Serve with places for two requests at once."""
    limits = ("--handler-timeout-ms", str(TIMEOUT_MS), "--concurrency-max", "2")
    return start(f"admission.departing:{target}", *limits, *options)


def leave(server: Server, path: str) -> None:
    """Ask, and reset the connection when the handler has begun."""
    with server.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("^begun")
        peer.reset(client)


@pytest.mark.parametrize("target", ["native", "asgi"])
@pytest.mark.parametrize(("loop", "eager"), MODES)
def test_it_is_cancelled_when_its_time_is_over(
    start: Start, target: str, loop: str, eager: str
) -> None:
    server = serve(start, target, "--loop", loop, "--eager-tasks", eager)
    for _ in range(2):
        leave(server, "/waits")
    with server.connect() as client:
        # It waits for a place, which no client holds any more.
        assert client.get("/quick").content == b"quick"
    for _ in range(2):
        server.wait_line(LATE)


@pytest.mark.parametrize("is_whole_connection", [False, True])
def test_it_is_when_a_stream_is_reset_too(start: Start, is_whole_connection: bool) -> None:
    server = serve(start, "native", "--h2c")
    with Client(server.connect()) as client:
        for stream in (1, 3):
            client.send(h2.get(stream, "/waits"))
            server.wait_line("^begun")
            if not is_whole_connection:
                client.send(h2.reset(stream))
        if not is_whole_connection:
            assert client.request(5, "/quick").content == b"quick"
    for _ in range(2):
        server.wait_line(LATE)


def test_one_that_has_started_its_response_works_on(start: Start) -> None:
    server = serve(start, "asgi")
    leave(server, "/works")
    server.wait_line("^has worked")
