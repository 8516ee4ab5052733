"""Timeouts set by options, with nothing else that could end the connection."""

import re
import signal
import socket
import time

import pytest

from protocol.pressure import APPLICATION
from support.server import Server, Start

pytestmark = pytest.mark.slow


def started(start: Start, *target: str, **milliseconds: int) -> Server:
    """Start a server with these timeouts and no others."""
    names = ("header", "keep_alive", "write", "handler", "linger")
    timeouts = {f"{name}_timeout_ms": 0 for name in names} | {"linger_timeout_ms": 10_000}
    timeouts |= {"body_grace_ms": 0, "body_rate_bytes_per_s_min": 0} | milliseconds
    options = [(f"--{name.replace('_', '-')}", str(value)) for name, value in timeouts.items()]
    return start(*(target or ("protocol.py",)), *(word for option in options for word in option))


def test_a_head_that_takes_too_long_has_the_response_408(start: Start) -> None:
    server = started(start, header_timeout_ms=200)
    with server.connect() as slow, server.connect() as other:
        slow.send(b"GET / HTTP/1.1\r\nHost: ")
        reply = slow.read()
        assert (reply.status, reply.is_last) == (408, True)
        assert slow.is_closed()
        # It has not sent a byte: nothing to respond to.
        assert other.is_closed()


def test_an_idle_connection_is_closed(start: Start) -> None:
    server = started(start, keep_alive_timeout_ms=200)
    with server.connect() as client:
        begin = time.monotonic()
        client.get("/")
        assert client.is_closed()
        assert time.monotonic() - begin > 0.15


@pytest.mark.parametrize("target", ["/read", "/read-later"])
def test_content_that_comes_too_slowly_has_the_response_408(start: Start, target: str) -> None:
    server = started(start, body_grace_ms=200, body_rate_bytes_per_s_min=1000)
    with server.connect() as client:
        client.send(f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx".encode())
        reply = client.read()
        assert (reply.status, reply.is_last) == (408, True)


def test_a_response_that_nobody_reads_is_given_up(start: Start) -> None:
    server = started(start, write_timeout_ms=200)
    with server.connect() as client:
        client.send(b"GET /big/50000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        received = 0
        # Nothing is read until the server must have given up.
        with server.connect() as other:
            other.get("/wait/800")
        try:
            while data := client.socket.recv(1 << 20):
                received += len(data)
        except ConnectionResetError:
            pass
        assert received < 50_000_000


def test_a_handler_that_takes_too_long_is_cancelled(start: Start) -> None:
    server = started(start, handler_timeout_ms=200)
    with server.connect() as client:
        reply = client.get("/wait/20000")
        assert (reply.status, reply.is_last) == (503, True)
        assert reply.get("retry-after") == "1"
        assert client.is_closed()


@pytest.mark.parametrize("tasks", ["on", "off"])
@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_a_handler_that_takes_too_long_is_named_in_the_log(
    start: Start, interface: str, tasks: str
) -> None:
    options = ("--eager-tasks", tasks)
    server = started(start, *APPLICATION[interface], *options, handler_timeout_ms=200)
    with server.connect() as client:
        assert client.get("/held/1?secret=1").status == 503
    message = "WARN  bolide.error: GET /held/1: no response within 200 ms "
    server.wait_line(re.escape(message + "(handler_timeout_ms): 503") + "$")
    with server.connect() as client:
        assert client.get("/hello").content == b"hello"
    server.signal(signal.SIGTERM)
    server.wait()
    assert server.errors.count("no response within") == 1
    assert "secret" not in server.errors


def test_the_handlers_timeout_is_paused_while_it_reads_from_a_slow_peer(start: Start) -> None:
    server = started(start, handler_timeout_ms=1000)
    with server.connect() as client, server.connect() as clock:
        client.send(b"POST /read-later HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
        for part in (b"a", b"b", b"c"):
            clock.get("/wait/600")
            client.send(part)
        assert client.read().content == b"3"


def test_a_client_that_stays_after_the_end_is_left(start: Start) -> None:
    server = started(start, linger_timeout_ms=200)
    with server.connect() as client:
        client.send(b"nonsense\r\n\r\n")
        assert client.read().status == 400
        assert client.is_closed()
        # Half of the connection is still open: writing shows when the other half ends.
        with pytest.raises(OSError):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                client.send(b"x")
                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
