"""A worker that has not the memory for what peers of TLS and HTTP/2 make it hold."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from support.client import Connection
from support.h2 import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Field,
    Kind,
    block,
    frame,
    request_fields,
    settings,
)
from support.h2 import data as data_frame
from support.memory import limit_memory
from support.server import Server, Start
from support.waiting import wait_until
from tls.authority import Authority, Files, SecureConnection

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
LEFT_BYTES = 6 * MEBIBYTE
MORE_BYTES = 32 * MEBIBYTE
"""For contents and responses: of less, only scattered pieces might be free afterwards."""
CONNECTIONS = 300
HELLO = 1
HANDSHAKE = 22
GET = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server(start: Start, files: Files) -> Server:
    return start("memory/native.py", *files.options, env={"MALLOC_ARENA_MAX": "1"})


@pytest.fixture
def http2(authority: Authority) -> ssl.SSLContext:
    client = authority.client()
    client.set_alpn_protocols(["h2"])
    return client


def records(message: bytes) -> bytes:
    """Return a message of the handshake in records."""
    parts = [message[at : at + 16_000] for at in range(0, len(message), 16_000)]
    return b"".join(struct.pack(">BHH", HANDSHAKE, 0x0301, len(part)) + part for part in parts)


def message(content: bytes, length: int | None = None) -> bytes:
    """Return a ClientHello with that content, which may be shorter than announced."""
    announced = len(content) if length is None else length
    return bytes((HELLO,)) + announced.to_bytes(3, "big") + content


def many_names() -> bytes:
    """Return a ClientHello with as many names of protocols as it can have."""
    names = b"\x01x" * 32_500
    extensions = struct.pack(">HHB", 43, 3, 2) + b"\x03\x04"
    extensions += struct.pack(">HHH", 16, len(names) + 2, len(names)) + names
    start = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    return message(start + struct.pack(">H", len(extensions)) + extensions)


def says_hello(server: Server, client: ssl.SSLContext) -> bool:
    """Return whether a new connection is served."""
    with suppress(ConnectionError, ssl.SSLError, AssertionError):
        with SecureConnection(server, client) as connection:
            connection.send(GET)
            return connection.read().status == 200
    return False


def survives(
    server: Server,
    client: ssl.SSLContext,
    connect: Callable[[], Connection],
    sent: bytes,
    left_bytes: int,
) -> None:
    """Open connections that hold memory; see that the worker says so, lives and serves."""
    assert says_hello(server, client)
    (worker,) = server.workers()
    limit_memory(worker, left_bytes)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            with suppress(ConnectionError, ssl.SSLError):
                stack.enter_context(connect()).send(sent)
        server.wait_line("no memory for")
        assert server.workers() == [worker]


def serves_again(server: Server, client: ssl.SSLContext) -> None:
    """See that the worker serves again when the others are gone."""
    (worker,) = server.workers()
    wait_until(lambda: says_hello(server, client))
    assert server.workers() == [worker]


def test_handshakes_there_is_no_memory_for_end(server: Server, client: ssl.SSLContext) -> None:
    unfinished = records(message(bytes(59_900), length=60_000))
    survives(server, client, server.connect, unfinished, LEFT_BYTES)
    serves_again(server, client)


def test_a_hello_that_takes_34_times_its_length_ends(
    server: Server, client: ssl.SSLContext
) -> None:
    # So little is left that whether a piece for the next handshake is free is luck.
    survives(server, client, server.connect, records(many_names()), 21 * MEBIBYTE // 10)


FIELDS = [(b"field", bytes([97 + at % 26]) * 14_000) for at in range(4)]
STREAMS = range(1, 21, 2)
WHOLE = END_STREAM | END_HEADERS


def request(method: str, path: str, *fields: Field) -> bytes:
    """Return a header block."""
    return block(request_fields(method, path, *fields, scheme="https"))


@pytest.mark.parametrize(
    ("frames", "left_bytes"),
    [
        (
            frame(Kind.HEADERS, 1, request("GET", "/hello"), END_STREAM)
            + b"".join(frame(Kind.CONTINUATION, 1, block([each])) for each in FIELDS[:2]),
            LEFT_BYTES,
        ),
        (
            b"".join(
                frame(Kind.HEADERS, stream, request("POST", "/echo"), END_HEADERS)
                + data_frame(stream, bytes(16_000)) * 4
                for stream in STREAMS
            ),
            MORE_BYTES,
        ),
        (
            b"".join(
                frame(Kind.HEADERS, stream, request("GET", "/big/1000000"), WHOLE)
                for stream in STREAMS
            ),
            MORE_BYTES,
        ),
    ],
    ids=["header blocks", "contents", "responses"],
)
def test_streams_there_is_no_memory_for_end(
    server: Server, client: ssl.SSLContext, http2: ssl.SSLContext, frames: bytes, left_bytes: int
) -> None:
    def connect() -> Connection:
        return SecureConnection(server, http2)

    survives(server, client, connect, PREFACE + settings({}) + frames, left_bytes)
    serves_again(server, client)


def test_requests_there_is_no_memory_for_are_refused(
    server: Server, client: ssl.SSLContext, http2: ssl.SSLContext
) -> None:
    def connect() -> Connection:
        return SecureConnection(server, http2)

    block_ = request("GET", "/wait", FIELDS[0])
    requests = [frame(Kind.HEADERS, stream, block_, WHOLE) for stream in STREAMS]
    # What their tasks leave may be scattered pieces: that it serves again is not promised.
    survives(server, client, connect, PREFACE + settings({}) + b"".join(requests), LEFT_BYTES)
