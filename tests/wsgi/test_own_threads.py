"""Threads of an application that write or read for a request which ends meanwhile."""

from __future__ import annotations

import pytest

from support.client import Connection
from support.server import Start

pytestmark = pytest.mark.slow

LONG_BYTES = 64_000_000
"""More than sockets hold."""
SPOOLED_BYTES_MAX = 100_000
OPTIONS = ("--threads", "2", "--spool-bytes-max", str(SPOOLED_BYTES_MAX))
WRITE_OVER = (
    b"RuntimeError: this request is over, or its application has returned: "
    b"nothing can be sent for it any more"
)
READ_OVER = b"RuntimeError: this request is over: its content cannot be read any more"


def test_a_write_that_waits_for_the_client_ends_with_its_request(start: Start) -> None:
    server = start("wsgi/own_threads.py", *OPTIONS)
    with Connection(server.address, receive_buffer_bytes=65_536) as client:
        client.send(f"GET /write/{LONG_BYTES} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        assert client.read_head().status == 200
        with server.connect() as other:
            assert other.get("/release").content == b"released"
            assert other.get("/ended").content == WRITE_OVER


def test_so_does_one_that_waits_because_the_temporary_file_is_full(start: Start) -> None:
    server = start("wsgi/own_threads.py", *OPTIONS)
    with server.connect() as one, server.connect() as queued:
        # Both are accepted: what they send later is served in the order in which it came.
        for other in (one, queued):
            assert other.get("/hello").content == b"hello"
        with Connection(server.address, receive_buffer_bytes=65_536) as client:
            client.send(f"GET /write/{LONG_BYTES} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
            assert client.read_head().status == 200
            # The one takes the other thread, so that the queued one needs that of the client.
            one.send(b"GET /written HTTP/1.1\r\nHost: test\r\n\r\n")
            queued.send(b"GET /release HTTP/1.1\r\nHost: test\r\n\r\n")
            assert one.read().content == b"yes"
            assert queued.read().content == b"released"
            assert one.get("/ended").content == WRITE_OVER


def test_a_read_ends_with_its_request(start: Start) -> None:
    server = start("wsgi/own_threads.py", *OPTIONS)
    fields = "Host: test\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n"
    with server.connect() as client:
        client.send(f"POST /read HTTP/1.1\r\n{fields}".encode())
        assert client.read_head().status == 100
        with server.connect() as other:
            assert other.get("/release").content == b"released"
            assert other.get("/ended").content == READ_OVER
