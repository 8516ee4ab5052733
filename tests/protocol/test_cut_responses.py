"""A response that ends with the connection and is cut ends with a reset, so that it shows."""

from __future__ import annotations

import signal

import pytest

from protocol.pressure import APPLICATION, wait_held
from support.client import Connection
from support.peer import is_reset
from support.request import head
from support.server import Start

pytestmark = pytest.mark.slow

ENDLESS = "/parts/1000000"
PAUSED = "/part-held"

streams = pytest.mark.parametrize(
    ("interface", "path"),
    [
        ("native", ENDLESS),
        ("native", "/parts-later/1000000"),
        ("asgi", ENDLESS),
        ("wsgi", ENDLESS),
        ("wsgi, inline", ENDLESS),
    ],
)
paused = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])


def begin(client: Connection, path: str) -> None:
    """Ask for a stream in HTTP/1.0, and read its head."""
    client.send(head("GET", path, version="1.0"))
    reply = client.read_head()
    assert (reply.status, reply.get("content-length"), reply.is_last) == (200, None, True)


def read_to_reset(client: Connection) -> None:
    """Read all that comes; it must end with a reset."""
    with pytest.raises(ConnectionResetError):
        while client.take(1 << 20):
            pass


@streams
def test_by_the_write_timeout(start: Start, interface: str, path: str) -> None:
    server = start(*APPLICATION[interface], "--write-timeout-ms", "700")
    with server.connect() as client:
        begin(client, path)
        assert is_reset(client, within_s=10)
        read_to_reset(client)


@streams
def test_by_the_end_of_the_graceful_time(start: Start, interface: str, path: str) -> None:
    server = start(*APPLICATION[interface], "--graceful-timeout-ms", "1000")
    with server.connect() as client:
        begin(client, path)
        server.signal(signal.SIGTERM)
        read_to_reset(client)
    server.wait()


@paused
def test_by_the_end_of_the_graceful_time_in_a_pause(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], "--graceful-timeout-ms", "1000")
    with server.connect() as client, server.connect() as other:
        begin(client, PAUSED)
        wait_held(other)
        server.signal(signal.SIGTERM)
        read_to_reset(client)
    server.wait()


@streams
def test_by_a_second_signal(start: Start, interface: str, path: str) -> None:
    server = start(*APPLICATION[interface])
    with server.connect() as client:
        begin(client, path)
        server.signal_twice()
        read_to_reset(client)
    assert server.wait() == 1


@paused
def test_by_a_second_signal_in_a_pause(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with server.connect() as client, server.connect() as other:
        begin(client, PAUSED)
        wait_held(other)
        server.signal_twice()
        read_to_reset(client)
    assert server.wait() == 1
