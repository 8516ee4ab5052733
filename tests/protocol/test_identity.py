"""What happens to one connection happens to it alone, also while a child process holds copies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol.pressure import APPLICATION, release, wait_held
from support.client import Connection
from support.peer import reset
from support.request import head
from support.server import Server, Start

pytestmark = pytest.mark.slow

ENDS_WITHIN_S = 8
interfaces = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])


@contextmanager
def forked(server: Server) -> Iterator[None]:
    """Have a handler fork a child, which holds what its worker has open; end it."""
    with server.connect() as client:
        child = int(client.get("/fork").content)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)


@interfaces
def test_a_client_sees_the_end_while_a_child_runs(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with server.connect() as client, server.connect() as refused:
        client.get("/hello")
        refused.get("/hello")
        with forked(server):
            client.socket.settimeout(ENDS_WITHIN_S)
            assert client.get("/hello", "Connection: close").is_last
            assert client.is_closed()
            refused.send(b"nonsense\r\n\r\n")
            assert refused.read().status == 400
            refused.socket.settimeout(ENDS_WITHIN_S)
            assert refused.is_closed()


@interfaces
def test_an_idle_client_sees_the_end_while_a_child_runs(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], "--keep-alive-timeout-ms", "500")
    with server.connect() as client:
        client.get("/hello")
        with forked(server):
            client.socket.settimeout(ENDS_WITHIN_S)
            assert client.is_closed()


@contextmanager
def replaced(server: Server) -> Iterator[tuple[Connection, Connection]]:
    """Return a connection that the server has closed, and the one that has taken its place."""
    first = server.connect()
    first.get("/hello")
    with forked(server):
        # Its response is pending for a moment, in which the server waits for nothing but its end.
        first.get("/early", "Connection: close")
        with server.connect() as second:
            assert second.get("/hello").content == b"hello"
            yield first, second


@interfaces
def test_a_reset_leaves_another_connection_alone(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with replaced(server) as (first, second):
        reset(first)
        with server.connect() as other:
            assert other.get("/hello").content == b"hello"
        assert second.get("/hello").content == b"hello"


@interfaces
def test_a_reset_leaves_a_pending_request_alone(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with replaced(server) as (first, second), server.connect() as other:
        second.send(head("GET", "/held/5"))
        wait_held(other)
        reset(first)
        release(other)
        assert second.read().content == b"hhhhh"


def test_an_end_is_not_reported_to_another_connections_application(start: Start) -> None:
    server = start(*APPLICATION["asgi"])
    with replaced(server) as (first, second), server.connect() as other:
        second.send(head("GET", "/watch"))
        wait_held(other)
        first.socket.close()
        release(other)
        assert second.read().content == b"released"
