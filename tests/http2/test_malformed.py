"""Malformed requests and frames (RFC 9113 sections 4 to 8): none reaches the application."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.client import Connection
from support.h2 import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Client,
    Code,
    Connect,
    Field,
    Kind,
    block,
    data,
    frame,
    get,
    headers,
    post,
    request_fields,
    reset,
    settings,
)
from support.server import APPLICATIONS, Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

HAS_PRIORITY = 0x20
GOOD: list[Field] = request_fields("GET", "/fields")


def without(name: bytes) -> list[Field]:
    """Return the fields of a good request without one."""
    return [each for each in GOOD if each[0] != name]


def replaced(name: bytes, value: bytes) -> list[Field]:
    """Return the fields of a good request with another value of one."""
    return [(each, value if each == name else old) for each, old in GOOD]


MALFORMED: dict[str, list[Field]] = {
    "upper case": [*GOOD, (b"X-Up", b"a")],
    "empty name": [*GOOD, (b"", b"a")],
    "space in a name": [*GOOD, (b"x y", b"a")],
    "colon in a name": [*GOOD, (b"x:", b"a")],
    "NUL in a name": [*GOOD, (b"x\0", b"a")],
    "CR in a value": [*GOOD, (b"x", b"a\rb")],
    "LF in a value": [*GOOD, (b"x", b"a\nb: c")],
    "NUL in a value": [*GOOD, (b"x", b"a\0")],
    "leading space": [*GOOD, (b"x", b" a")],
    "trailing space": [*GOOD, (b"x", b"a ")],
    "leading tab": [*GOOD, (b"x", b"\ta")],
    "connection": [*GOOD, (b"connection", b"close")],
    "keep-alive": [*GOOD, (b"keep-alive", b"1")],
    "proxy-connection": [*GOOD, (b"proxy-connection", b"close")],
    "transfer-encoding": [*GOOD, (b"transfer-encoding", b"chunked")],
    "upgrade": [*GOOD, (b"upgrade", b"h2c")],
    "te": [*GOOD, (b"te", b"gzip")],
    "te, two": [*GOOD, (b"te", b"trailers, gzip")],
    "no method": without(b":method"),
    "no scheme": without(b":scheme"),
    "no path": without(b":path"),
    "no authority": without(b":authority"),
    "empty method": replaced(b":method", b""),
    "empty path": replaced(b":path", b""),
    "relative path": replaced(b":path", b"fields"),
    "absolute path": replaced(b":path", b"http://test/fields"),
    "asterisk": replaced(b":path", b"*"),
    "space in the path": replaced(b":path", b"/a b"),
    "line end in the path": replaced(b":path", b"/a\r\nx: y"),
    "NUL in the path": replaced(b":path", b"/a\0"),
    "space in the method": replaced(b":method", b"GET /x"),
    "line end in the authority": replaced(b":authority", b"test\r\nx: y"),
    "userinfo": replaced(b":authority", b"user@test"),
    "two methods": [*GOOD, (b":method", b"GET")],
    "method twice": [(b":method", b"GET"), *GOOD],
    "path twice": [(b":path", b"/"), *GOOD],
    "status": [(b":status", b"200"), *GOOD],
    "unknown pseudo-header": [(b":protocol", b"websocket"), *GOOD],
    "late pseudo-header": [*without(b":path"), (b"x", b"a"), (b":path", b"/")],
    "another host": [*GOOD, (b"host", b"other")],
    "two hosts": [*without(b":authority"), (b"host", b"test"), (b"host", b"test")],
    "length of nothing": [*GOOD, (b"content-length", b"1")],
    "two lengths": [*GOOD, (b"content-length", b"0"), (b"content-length", b"0")],
    "no number": [*GOOD, (b"content-length", b"+0")],
    "CONNECT with a path": replaced(b":method", b"CONNECT"),
}
RESPONDED = {"length of nothing"}
"""These get a 400 in place of a reset, which RFC 9113 section 8.1.1 allows."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return one server for all tests of this file."""
    running = Server(["h2/native.py", "--port", "0", "--h2c"], APPLICATIONS)
    yield running.wait_ready()
    running.close()


def served(server: Server) -> int:
    """Return how often the application has reported a request's fields."""
    with server.connect() as other:
        count: int = other.get("/counts").json().get("fields", 0)
        return count


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_request_ends_its_stream_only(
    server: Server, connect: Connect, kind: str
) -> None:
    before = served(server)
    client = connect(server)
    client.send(headers(1, MALFORMED[kind]))
    response = client.response(1)
    if kind in RESPONDED:
        assert (response.status, response.reset) == (400, None)
    else:
        assert (response.status, response.reset) == (0, Code.PROTOCOL_ERROR)
    assert client.request(3, "/").content == b"hello"
    assert served(server) == before


def test_a_malformed_request_has_a_line_in_the_access_log(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    logged = start("h2/native.py", "--h2c", "--access-log", str(log))
    client = connect(logged)
    client.send(headers(1, MALFORMED["upper case"]))
    assert client.response(1).reset == Code.PROTOCOL_ERROR
    wait_until(lambda: log.read_text().endswith("\n"))
    assert re.fullmatch(r'127\.0\.0\.1 - - \[[^]]+\] "-" 400 0 "-" "-"\n', log.read_text())


def test_an_extended_connect_for_another_protocol_is_not_implemented(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    fields = [*replaced(b":method", b"CONNECT"), (b":protocol", b"connect-udp")]
    client.send(headers(1, fields, is_last=False), data(1, b"x", is_last=True))
    assert client.response(1).status == 501
    assert client.request(3, "/").content == b"hello"


ACCEPTED: dict[str, list[Field]] = {
    "te": [*GOOD, (b"te", b"trailers")],
    "host": [*without(b":authority"), (b"host", b"test")],
    "the same host": [*GOOD, (b"host", b"TEST")],
    "empty value": [*GOOD, (b"x", b"")],
    "bytes above 127": [*GOOD, (b"x", b"\xff")],
    "method last": [*without(b":method"), (b":method", b"GET")],
    "https": replaced(b":scheme", b"https"),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_unusual_requests_are_served(server: Server, connect: Connect, kind: str) -> None:
    client = connect(server)
    client.send(headers(1, ACCEPTED[kind]))
    response = client.response(1)
    assert response.status == 200
    assert json.loads(response.content)["host"] in ("test", "TEST")


def test_a_path_of_raw_bytes_is_no_danger(server: Server, connect: Connect) -> None:
    client = connect(server)
    for stream, path in enumerate((b"/\x80", b"/%ff", b"/%00", b"/\xff\xfe"), start=0):
        client.send(headers(1 + 2 * stream, replaced(b":path", path)))
        response = client.response(1 + 2 * stream)
        assert response.reset == Code.PROTOCOL_ERROR or response.status in (400, 404)
    assert client.request(101, "/").content == b"hello"


CONTENT: dict[str, tuple[bytes, bytes]] = {
    "shorter": (b"5", data(1, b"four", is_last=True)),
    "longer": (b"3", data(1, b"four", is_last=True)),
    "longer in parts": (b"3", data(1, b"fo") + data(1, b"ur")),
    "shorter, with trailers": (b"5", data(1, b"four") + headers(1, [(b"x", b"y")])),
    "none": (b"5", data(1, b"", is_last=True)),
}


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("path", ["/echo", "/parts", "/unread", "/early"])
def test_content_that_differs_from_its_length_ends_its_stream(
    server: Server, connect: Connect, kind: str, path: str
) -> None:
    length, content = CONTENT[kind]
    client = connect(server)
    client.send(post(1, path, (b"content-length", length)) + content)
    if path == "/early":
        client.ping()
    else:
        response = client.response(1)
        assert response.reset == Code.PROTOCOL_ERROR
        assert not response.status
    assert client.request(3, "/").content == b"hello"


TRAILERS: dict[str, bytes] = {
    "pseudo-header": headers(1, [(b":path", b"/")]),
    "upper case": headers(1, [(b"X", b"y")]),
    "length": headers(1, [(b"content-length", b"4")]),
    "no end": headers(1, [(b"x", b"y")], is_last=False),
}


@pytest.mark.parametrize("kind", TRAILERS)
def test_malformed_trailers_end_their_stream(server: Server, connect: Connect, kind: str) -> None:
    client = connect(server)
    client.send(post(1, "/echo"), data(1, b"four"), TRAILERS[kind])
    assert client.response(1).reset == Code.PROTOCOL_ERROR
    assert client.request(3, "/").content == b"hello"


def test_trailers_end_the_content(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(post(1, "/echo"), data(1, b"four"), headers(1, [(b"x-sum", b"4")]))
    assert client.response(1).content == b"four"


def priority(stream: int) -> bytes:
    return frame(Kind.PRIORITY, stream, b"\0\0\0\0\0")


def own_parent(stream: int) -> bytes:
    """Return a request whose stream depends on itself (RFC 7540 section 5.3.1)."""
    parent = stream.to_bytes(4, "big") + b"\0"
    flags = END_HEADERS | END_STREAM | HAS_PRIORITY
    return frame(Kind.HEADERS, stream, parent + block(GOOD), flags)


FATAL: dict[str, tuple[bytes, Code]] = {
    "even stream, its own parent": (own_parent(2), Code.PROTOCOL_ERROR),
    "used stream, its own parent": (get(1, "/") + own_parent(1), Code.STREAM_CLOSED),
    "even stream": (get(2, "/"), Code.PROTOCOL_ERROR),
    "stream 0": (get(0, "/"), Code.PROTOCOL_ERROR),
    "used stream": (get(1, "/") + get(1, "/"), Code.STREAM_CLOSED),
    "lower stream": (get(5, "/") + get(3, "/"), Code.STREAM_CLOSED),
    "DATA on an idle stream": (data(7, b"x"), Code.PROTOCOL_ERROR),
    "DATA on stream 0": (data(0, b"x"), Code.PROTOCOL_ERROR),
    "RST_STREAM of an idle stream": (reset(7), Code.PROTOCOL_ERROR),
    "RST_STREAM of stream 0": (reset(0), Code.PROTOCOL_ERROR),
    "RST_STREAM, length": (frame(Kind.RST_STREAM, 1, b"123"), Code.FRAME_SIZE_ERROR),
    "PRIORITY of stream 0": (priority(0), Code.PROTOCOL_ERROR),
    "PUSH_PROMISE": (frame(Kind.PUSH_PROMISE, 1, bytes(4), END_HEADERS), Code.PROTOCOL_ERROR),
    "SETTINGS of a stream": (frame(Kind.SETTINGS, 1), Code.PROTOCOL_ERROR),
    "SETTINGS, length": (frame(Kind.SETTINGS, 0, bytes(5)), Code.FRAME_SIZE_ERROR),
    "SETTINGS, acknowledgement": (frame(Kind.SETTINGS, 0, bytes(6), 1), Code.FRAME_SIZE_ERROR),
    "push": (settings({2: 2}), Code.PROTOCOL_ERROR),
    "frame size": (settings({5: 16_383}), Code.PROTOCOL_ERROR),
    "PING, length": (frame(Kind.PING, 0, bytes(7)), Code.FRAME_SIZE_ERROR),
    "PING of a stream": (frame(Kind.PING, 1, bytes(8)), Code.PROTOCOL_ERROR),
    "GOAWAY of a stream": (frame(Kind.GOAWAY, 1, bytes(8)), Code.PROTOCOL_ERROR),
    "GOAWAY, length": (frame(Kind.GOAWAY, 0, bytes(7)), Code.FRAME_SIZE_ERROR),
    "CONTINUATION alone": (frame(Kind.CONTINUATION, 1, b"", END_HEADERS), Code.PROTOCOL_ERROR),
    "block interrupted": (
        frame(Kind.HEADERS, 1, b"", END_STREAM) + frame(Kind.PING, 0, bytes(8)),
        Code.PROTOCOL_ERROR,
    ),
    "block interrupted by the unknown": (
        frame(Kind.HEADERS, 1, b"", END_STREAM) + frame(0x42, 0),
        Code.PROTOCOL_ERROR,
    ),
    "block of another stream": (
        frame(Kind.HEADERS, 1, b"", END_STREAM) + frame(Kind.CONTINUATION, 3, b"", END_HEADERS),
        Code.PROTOCOL_ERROR,
    ),
    "too long": (frame(Kind.DATA, 1, bytes(16_385)), Code.FRAME_SIZE_ERROR),
    "too long, of an unknown type": (frame(0x42, 1, bytes(16_385)), Code.FRAME_SIZE_ERROR),
    "padding": (
        post(1, "/echo") + frame(Kind.DATA, 1, b"\x05abcd", 0x8),
        Code.PROTOCOL_ERROR,
    ),
    "padding of nothing": (post(1, "/echo") + frame(Kind.DATA, 1, b"", 0x8), Code.PROTOCOL_ERROR),
    "index 0": (frame(Kind.HEADERS, 1, b"\x80", END_HEADERS | 1), Code.COMPRESSION_ERROR),
    "unknown index": (frame(Kind.HEADERS, 1, b"\xbf", END_HEADERS | 1), Code.COMPRESSION_ERROR),
    "endless integer": (
        frame(Kind.HEADERS, 1, b"\xff" + b"\xff" * 20, END_HEADERS | 1),
        Code.COMPRESSION_ERROR,
    ),
    "literal beyond the block": (
        frame(Kind.HEADERS, 1, b"\x00\x7f\xff\x7fabc", END_HEADERS | 1),
        Code.COMPRESSION_ERROR,
    ),
    "table too large": (
        frame(Kind.HEADERS, 1, b"\x3f\xff\xff\x03" + block(GOOD), END_HEADERS | 1),
        Code.COMPRESSION_ERROR,
    ),
    "late change of the table": (
        frame(Kind.HEADERS, 1, block(GOOD) + b"\x20", END_HEADERS | 1),
        Code.COMPRESSION_ERROR,
    ),
    "Huffman padding": (
        frame(Kind.HEADERS, 1, b"\x00\x81\x00\x01a", END_HEADERS | 1),
        Code.COMPRESSION_ERROR,
    ),
}


@pytest.mark.parametrize("kind", FATAL)
def test_errors_end_the_connection(server: Server, connect: Connect, kind: str) -> None:
    sent, code = FATAL[kind]
    client = connect(server)
    client.ping()
    client.send(sent)
    goaway = client.end()
    assert goaway is not None
    assert goaway.code == code
    with server.connect() as other:
        assert other.get("/").content == b"hello"


@pytest.mark.parametrize("first", [get(1, "/"), frame(Kind.PING, 0, bytes(8)), data(1, b"x")])
def test_the_first_frame_is_settings(server: Server, first: bytes) -> None:
    client = Client(server.connect(), prefix=PREFACE + first)
    with client:
        goaway = client.end()
    assert goaway is not None
    assert goaway.code == Code.PROTOCOL_ERROR


@pytest.mark.parametrize("cut", [1, 3, 4, 10, 23])
def test_a_preface_in_parts(server: Server, cut: int) -> None:
    connection: Connection = server.connect()
    connection.send(PREFACE[:cut])
    with Client(connection, prefix=PREFACE[cut:] + settings({})) as client:
        assert client.request(1, "/").content == b"hello"


def test_a_wrong_preface_ends_the_connection(server: Server) -> None:
    wrong = PREFACE[:-1] + b"X" + settings({})
    with Client(server.connect(), prefix=wrong) as client:
        goaway = client.end()
    assert goaway is not None
    assert goaway.code == Code.PROTOCOL_ERROR


def test_an_upgrade_is_ignored(server: Server) -> None:
    with server.connect() as client:
        fields = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        reply = client.post("/echo", b"content", *fields)
        assert reply.status == 200
        assert reply.content == b"content"
        assert reply.get("upgrade") is None
        assert client.get("/").content == b"hello"


def test_frames_after_the_end_of_a_stream(server: Server, connect: Connect) -> None:
    client = connect(server)
    assert client.request(1, "/").content == b"hello"
    client.send(data(1, b"late"))
    client.read_until(Kind.RST_STREAM, 1)
    assert client.messages[1].reset == Code.STREAM_CLOSED
    # None of these changes anything.
    client.send(reset(1), frame(Kind.WINDOW_UPDATE, 1, b"\0\0\0\1"), priority(1), frame(0x42, 1))
    assert client.request(3, "/").content == b"hello"


def test_a_smaller_table_applies_once_it_is_acknowledged(start: Start, connect: Connect) -> None:
    update = b"\x20"
    inserted = b"\x40\x01x\x01y"
    server = start("h2/native.py", "--h2c", "--h2-table-bytes-max", "1")

    client = connect(server)
    client.send(frame(Kind.HEADERS, 1, block(GOOD) + inserted, END_HEADERS | END_STREAM))
    assert client.response(1).status == 200  # the settings are acknowledged now
    client.send(frame(Kind.HEADERS, 3, update + block(GOOD) + inserted, END_HEADERS | END_STREAM))
    assert client.response(3).status == 200
    client.send(frame(Kind.HEADERS, 5, block(GOOD) + b"\xbe", END_HEADERS | END_STREAM))
    goaway = client.end()
    assert goaway and goaway.code == Code.COMPRESSION_ERROR

    client = connect(server)
    assert client.request(1, "/").status == 200
    client.send(headers(3, GOOD))
    goaway = client.end()
    assert goaway and goaway.code == Code.COMPRESSION_ERROR


def test_a_preface_without_h2c_is_refused_with_the_reason(start: Start) -> None:
    reason = "The target * needs OPTIONS; HTTP/2, which starts with PRI *, is not enabled."
    server = start("h2/native.py")
    with server.connect() as client:
        client.send(PREFACE)
        reply = client.read()
        assert (reply.status, reply.is_last) == (400, True)
        assert reply.content.decode().strip().endswith(reason)
    server.wait_line(re.escape(f"refused 1 request with 400: {reason}"))
