"""One application in every interface: the same bytes come back, whatever a client sends.

The native application of plain functions is the measure; what it responds is proved in
tests/protocol and tests/web. Only the date is left out.
"""

from __future__ import annotations

import contextlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.loops import Serving
from support.server import Server, Start

pytestmark = pytest.mark.slow

PATIENCE_S = 10
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
RESET = b"a reset"
CLOSE = "Connection: close"
EXPECT = "Expect: 100-continue"
CHUNKED = "Transfer-Encoding: chunked"

MEASURE = "behaviour/native.py:app"
INTERFACES = {
    "native": (MEASURE,),
    "native, later": ("behaviour/native.py:later",),
    "asgi": ("behaviour/asgi.py:app",),
    "asgi, later": ("behaviour/asgi.py:later",),
    "wsgi": ("behaviour/wsgi.py:app",),
    "wsgi, inline": ("behaviour/wsgi.py:app", "--threads", "1"),
    "asgi, mounted": ("behaviour/mounted.py:asgi",),
    "asgi, later, mounted": ("behaviour/mounted.py:asgi_later",),
    "wsgi, mounted": ("behaviour/mounted.py:wsgi",),
    "wsgi, inline, mounted": ("behaviour/mounted.py:wsgi", "--threads", "1"),
}


@dataclass(frozen=True)
class Talk:
    """What a client sends, piece by piece, and what it must receive."""

    pieces: tuple[bytes, ...]
    statuses: tuple[int, ...]
    holds: bytes = b""
    awaits_continue: bool = False
    """Whether the client waits for a 100 after the first piece."""


def head(method: str, path: str, *fields: str, version: str = "1.1") -> bytes:
    """Return the head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: test", *fields, "", ""]).encode()


def get(*paths: str) -> bytes:
    """Return a batch of requests."""
    return b"".join(head("GET", path) for path in paths)


def length(size: int) -> str:
    """Return the field that states the length of content."""
    return f"Content-Length: {size}"


LARGE = bytes(range(256)) * 1200
CHUNKS = b"5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"

PATHS = {
    "/": (200, b"\r\nhello"),
    "/empty": (200, b"Content-Length: 0\r\n"),
    "/large": (200, b"Content-Length: 1048576\r\n"),
    "/fields": (200, b"x-a: 1\r\nx-b: \r\nx-a: 2, 3\r\n"),
    "/cookies": (200, b"set-cookie: a=1\r\nset-cookie: b=2; path=/\r\n"),
    "/own": (200, b"\r\nserver: own\r\n"),
    "/created": (201, b"location: /made\r\n"),
    "/no-content": (204, b"204 No Content"),
    "/not-modified": (304, b'etag: "1"\r\n'),
    "/teapot": (418, b"short and stout"),
    "/unavailable": (503, b"retry-after: 1\r\n"),
    "/parts": (200, b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"),
    "/part": (200, b"\r\n\r\n3\r\none\r\n0\r\n\r\n"),
    "/large-parts": (200, b"\r\n0\r\n\r\n"),
    "/empty-parts": (200, b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
    "/created-parts": (201, b"x-a: 1\r\n"),
    "/nowhere": (404, b"there is no such thing"),
    "/fails": (500, b"500 Internal Server Error\n"),
    "/fails-inside": (200, b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n"),
    "/described?a=%20&b": (200, b"GET /described a=%20&b 0"),
}
# An ASGI application that sends nothing to HEAD may have left the content out, and its length.
HEADED = [path for path in PATHS if path not in ("/empty", "/fails-inside", "/described?a=%20&b")]
PERSISTENT = [path for path in PATHS if path != "/fails-inside"]

TALKS = {
    **{
        f"get {path}": Talk((head("GET", path),), (status,), holds)
        for path, (status, holds) in PATHS.items()
    },
    **{f"head {path}": Talk((head("HEAD", path),), (PATHS[path][0],)) for path in HEADED},
    **{
        f"close {path}": Talk((head("GET", path, CLOSE),), (PATHS[path][0],), b"close\r\n")
        for path in PERSISTENT
    },
    **{
        f"1.0 {path}": Talk((head("GET", path, version="1.0"),), (PATHS[path][0],))
        for path in PERSISTENT
    },
    "1.0 /fails-inside": Talk((head("GET", "/fails-inside", version="1.0"),), (), RESET),
    **{
        f"1.0 keep-alive {path}": Talk(
            (head("GET", path, "Connection: keep-alive", version="1.0"), get("/")),
            (PATHS[path][0], 200),
        )
        for path in ("/", "/large", "/nowhere", "/fails", "/no-content")
    },
    "1.0 keep-alive /parts": Talk(
        (head("GET", "/parts", "Connection: keep-alive", version="1.0"),), (200,), b"onetwothree"
    ),
    "twice": Talk((get("/"), get("/teapot")), (200, 418)),
    "batch": Talk(
        (get(*PERSISTENT, "/fails-inside", "/"),),
        (*(PATHS[path][0] for path in PERSISTENT), 200),
    ),
    "batch with close": Talk((get("/") + head("GET", "/parts", CLOSE) + get("/"),), (200, 200)),
    "batch of single bytes": Talk(
        tuple(bytes([each]) for each in get("/", "/parts", "/nowhere")), (200, 200, 404)
    ),
    "echo": Talk((head("POST", "/echo", length(5)) + b"hello",), (200,), b"\r\n\r\nhello"),
    "echo nothing": Talk((head("POST", "/echo", length(0)),), (200,), b"Content-Length: 0"),
    "echo much": Talk((head("PUT", "/echo", length(len(LARGE))), LARGE), (200,), LARGE),
    "echo chunks": Talk((head("POST", "/echo", CHUNKED) + CHUNKS,), (200,), b"\r\n\r\nhello!"),
    "echo no chunks": Talk((head("POST", "/echo", CHUNKED) + b"0\r\n\r\n",), (200,)),
    "echo single bytes": Talk(
        tuple(bytes([each]) for each in head("POST", "/echo", CHUNKED) + CHUNKS), (200,), b"hello!"
    ),
    "echo slowly": Talk(
        (head("POST", "/echo", length(6)), b"he", b"ll", b"o!", get("/")), (200, 200), b"hello!"
    ),
    "echo in a batch": Talk(
        (head("POST", "/echo", length(5)) + b"hello" + head("POST", "/echo", CHUNKED) + CHUNKS,),
        (200, 200),
    ),
    "echo and fail": Talk(
        (head("POST", "/fails", length(5)) + b"hello" + get("/"),), (500, 200), b"\r\n\r\nhello"
    ),
    "methods": Talk(
        tuple(head(method, "/described") for method in ("POST", "PUT", "DELETE", "OPTIONS")),
        (200,) * 4,
        b"DELETE /described  0",
    ),
    "absolute target": Talk(
        (head("GET", "http://other:81/host") + get("/host") + head("GET", "HTTP://third/host"),),
        (200,) * 3,
        b"\r\n\r\nother:81",
    ),
    "absolute target with other fields": Talk(
        (head("GET", "http://other/host", "Accept: a", "X-Host: b") + get("/host"),),
        (200, 200),
        b"\r\n\r\nother",
    ),
    "1.0 absolute target without a host": Talk(
        (b"GET http://other:81/host HTTP/1.0\r\n\r\n",), (200,), b"\r\n\r\nother:81"
    ),
    "continue": Talk(
        (head("POST", "/echo", length(5), EXPECT), b"hello", get("/")), (200, 200), b"hello", True
    ),
    "continue with chunks": Talk(
        (head("POST", "/echo", CHUNKED, EXPECT), CHUNKS), (200,), b"hello!", True
    ),
    "continue without need": Talk(
        (head("POST", "/echo", length(5), EXPECT) + b"hello",), (200,), b"hello"
    ),
    "malformed": Talk((get("/") + b"GET / HTTP/1.1\r\nno colon\r\n\r\n" + get("/"),), (200, 400)),
    "malformed chunks": Talk(
        (head("POST", "/echo", CHUNKED) + b"5\r\nhello\r\nZ\r\n",), (400,), b"close\r\n"
    ),
    "another version": Talk((b"GET / HTTP/2.0\r\nHost: test\r\n\r\n",), (505,)),
    "too much": Talk((head("POST", "/echo", length(1 << 40)),), (413,)),
    "another expectation": Talk((head("POST", "/echo", length(5), "Expect: tea"),), (417,)),
    "half a head": Talk((get("/") + b"GET / HT",), (200,)),
    "nothing": Talk((), ()),
}


def responses(server: Server, talk: Talk) -> bytes:
    """Talk, end the sending side, and give all that comes, without its dates.

    A reset takes with it what was not read by then, so nothing is said of that.
    """
    try:
        received = all_responses(server, talk)
    except ConnectionResetError:
        return RESET
    return re.sub(rb"\r\nDate: [^\r]+", b"\r\nDate: *", received)


def all_responses(server: Server, talk: Talk) -> bytes:
    """Talk, and read to the end."""
    is_path = isinstance(server.address, str)
    with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as client:
        client.settimeout(PATIENCE_S)
        client.connect(server.address)
        if not is_path:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, piece in enumerate(talk.pieces):
            client.sendall(piece)
            if talk.awaits_continue and number == 0:
                assert client.recv(len(CONTINUE), socket.MSG_WAITALL) == CONTINUE
        with contextlib.suppress(OSError):  # the server may have reset it by now
            client.shutdown(socket.SHUT_WR)
        received = b""
        while data := client.recv(1 << 20):
            received += data
    return received


def statuses(received: bytes) -> tuple[int, ...]:
    """Return the statuses of the responses, whose contents hold no such lines."""
    return tuple(int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received))


@pytest.mark.parametrize("name", TALKS)
def test_the_measure_says_what_it_must(serving: Serving, name: str) -> None:
    received = responses(serving(MEASURE), TALKS[name])
    assert statuses(received) == TALKS[name].statuses
    assert TALKS[name].holds in received


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize("interface", [name for name in INTERFACES if name != "native"])
def test_every_interface_says_the_same(serving: Serving, interface: str, name: str) -> None:
    talk = TALKS[name]
    assert responses(serving(*INTERFACES[interface]), talk) == responses(serving(MEASURE), talk)


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_unix_socket_says_the_same(
    serving: Serving, start: Start, loop: str, tmp_path: Path, interface: str
) -> None:
    target, *options = INTERFACES[interface]
    local = start(target, "--uds", str(tmp_path / "socket"), "--loop", loop, *options)
    for name, talk in TALKS.items():
        if talk.holds == RESET:
            continue  # there are none on a UNIX socket
        assert (name, responses(local, talk)) == (name, responses(serving(MEASURE), talk))
