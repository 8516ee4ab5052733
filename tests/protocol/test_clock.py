"""Time that a handler spent blocking the worker is not counted against those who came meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol.pressure import APPLICATION
from support.client import Connection
from support.peer import is_silent
from support.request import head
from support.server import Server, Start
from support.worker import stopped

pytestmark = pytest.mark.slow

BLOCKING_MS = 5500
TIMEOUTS = tuple(
    f"--{name}-timeout-ms=4500" for name in ("header", "keep-alive", "handler", "write")
)
QUIET_S = 0.4
"""Much longer than a deadline that has passed already would take, shorter than a fresh one."""
REQUEST = head("GET", "/hello")

interfaces = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi, inline"])


@contextmanager
def blocked(server: Server, client: Connection) -> Iterator[None]:
    """Block the worker by a request, with what the body of the statement does ready after it."""
    for _ in range(2):
        client.get("/hello")  # the second one is waited for when all that was ready before is done
    with stopped(server):
        client.send(head("GET", f"/block/{BLOCKING_MS}/1"))
        yield


@interfaces
def test_clients_that_connected_meanwhile_have_the_whole_time(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *TIMEOUTS)
    with server.connect() as client:
        with blocked(server, client):
            silent, partial, served = (server.connect() for _ in range(3))
            partial.send(REQUEST[:20])
            served.send(REQUEST)
        assert client.read().content == b"1"
        assert served.read().content == b"hello"
        with silent, partial, served:
            assert is_silent(silent, QUIET_S)
            silent.send(REQUEST)
            partial.send(REQUEST[20:])
            served.send(REQUEST)
            for each in (silent, partial, served):
                assert each.read().content == b"hello"


@interfaces
def test_clients_that_were_idle_have_the_whole_time(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *TIMEOUTS)
    with server.connect() as client, server.connect() as partial, server.connect() as served:
        partial.get("/hello")
        served.get("/hello")
        with blocked(server, client):
            partial.send(REQUEST[:20])
            served.send(REQUEST)
        assert client.read().content == b"1"
        assert served.read().content == b"hello"
        assert is_silent(partial, QUIET_S)
        partial.send(REQUEST[20:])
        served.send(REQUEST)
        assert partial.read().content == b"hello"
        assert served.read().content == b"hello"


@pytest.mark.parametrize("interface", ["native", "asgi"])
def test_requests_that_came_meanwhile_have_the_whole_time(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *TIMEOUTS)
    with server.connect() as client, server.connect() as idle:
        idle.get("/hello")
        with blocked(server, client):
            idle.send(head("GET", "/wait/500"))
            fresh = server.connect()
            fresh.send(head("GET", "/wait/500"))
        with fresh:
            assert client.read().content == b"1"
            for each in (idle, fresh):
                reply = each.read()
                assert (reply.status, reply.content) == (200, b"waited")


@pytest.mark.parametrize("interface", ["native", "asgi"])
def test_a_request_after_one_that_blocks_has_the_whole_time(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *TIMEOUTS)
    with server.connect() as client:
        client.send(head("GET", f"/block/{BLOCKING_MS}/1") + head("GET", "/wait/500"))
        assert client.read().content == b"1"
        assert client.read().content == b"waited"
