"""What is refused is refused to HEAD as to GET, but without content (RFC 9110, section 9.3.2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.pressure import APPLICATION
from support.client import Reply
from support.server import APPLICATIONS, Server

pytestmark = pytest.mark.slow

OPTIONS = ("--header-timeout-ms", "1000")
HOST, FIELD = "Host: test\r\n", "A: b\r\n"
PIPELINED = f"GET /hello HTTP/1.1\r\n{HOST}\r\n".encode()
CASES = {
    "a malformed field line": (400, f"/hello HTTP/1.1\r\n{HOST}no colon\r\n\r\n"),
    "no host": (400, "/hello HTTP/1.1\r\n\r\n"),
    "a malformed length": (400, f"/hello HTTP/1.1\r\n{HOST}Content-Length: x\r\n\r\n"),
    "a malformed target": (400, f"hello HTTP/1.1\r\n{HOST}\r\n"),
    "a malformed version": (400, f"/hello HTTX/1.1\r\n{HOST}\r\n"),
    "a slow field line": (408, "/hello HTTP/1.1\r\nHost: te"),
    "a slow request line": (408, "/hel"),
    "long content": (413, f"/hello HTTP/1.1\r\n{HOST}Content-Length: {1 << 39}\r\n\r\n"),
    "a long target": (414, f"/{'a' * 10_000} HTTP/1.1\r\n{HOST}\r\n"),
    "a target without an end": (414, f"/{'a' * 10_000}"),
    "an expectation": (417, f"/hello HTTP/1.1\r\n{HOST}Expect: tea\r\n\r\n"),
    "a long field": (431, f"/hello HTTP/1.1\r\n{HOST}A: {'a' * 40_000}\r\n\r\n"),
    "many fields": (431, f"/hello HTTP/1.1\r\n{HOST}{FIELD * 200}\r\n"),
    "a coding": (501, f"/hello HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "a version": (505, f"/hello HTTP/2.0\r\n{HOST}\r\n"),
}
"""Status, and what follows the method."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return one server for all tests of this file."""
    running = Server([*APPLICATION["native"], "--port", "0", *OPTIONS], APPLICATIONS)
    yield running.wait_ready()
    running.close()


def refusal(server: Server, method: str, rest: str, before: bytes = b"") -> Reply:
    """Send a request; return how it is refused, with all that follows the head as its content."""
    with server.connect() as client:
        client.send(before + f"{method} {rest}".encode())
        if before:
            assert client.read().content == b"hello"
        reply = client.read_head()
        reply.content = client.read_to_end()
        assert reply.is_last
        return reply


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("before", [b"", PIPELINED], ids=["first", "pipelined"])
def test_a_refusal_to_head_has_the_length_but_no_content(
    server: Server, case: str, before: bytes
) -> None:
    status, rest = CASES[case]
    get = refusal(server, "GET", rest, before)
    head = refusal(server, "HEAD", rest, before)
    assert (head.status, get.status) == (status, status)
    assert head.get("content-length") == get.get("content-length") == str(len(get.content))
    assert head.get("content-type") == get.get("content-type")
    assert get.content
    assert head.content == b""


@pytest.mark.parametrize("method", ["HEADER", "head", "HEA"])
def test_a_method_that_only_looks_like_it_is_refused_with_content(
    server: Server, method: str
) -> None:
    reply = refusal(server, method, f"/hello HTTP/1.1\r\n{HOST}no colon\r\n\r\n")
    assert reply.get("content-length") == str(len(reply.content))
    assert reply.content
