"""`wsgi.input` over the socket; each number is that of the point that servers get wrong."""

from __future__ import annotations

import pytest

from support.client import Connection
from support.server import Server
from wsgi.observed import wait_seen

pytestmark = pytest.mark.slow

LINES = b"first\nsecond\n\nlast"


def post(path: str, content: bytes) -> bytes:
    """Return a request of known length."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )


def chunked(path: str, *chunks: bytes) -> bytes:
    """Return a chunked request."""
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("all", ["first\nsecond\n\nlast", "", ""]),
        ("pieces", ["first\ns", "econd\n\n", "last"]),
        ("lines", ["first\n", "second\n", "\n", "last", ""]),
        ("short-lines", ["fir", "st\n", "sec", "ond", "\n", "\n", "las", "t"]),
        ("readlines", ["first\n", "second\n", "\n", "last"]),
        ("hint", ["first\n", "|", "second\n", "\n", "last"]),
    ],
)
def test_50_ways_to_read(client: Connection, how: str, parts: list[str], is_chunked: bool) -> None:
    path = f"/read/{how}"
    client.send(chunked(path, b"fir", LINES[3:7], LINES[7:]) if is_chunked else post(path, LINES))
    assert client.read().json() == parts


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_537, 1_048_576, 1_048_577, 3_000_000])
def test_50_content_of_any_size_is_whole(client: Connection, size: int) -> None:
    client.send(post("/read/count", b"c" * size))
    assert client.read().json() == [str(size)]


def test_48_content_of_chunks_is_as_one_of_known_length(client: Connection) -> None:
    for _ in range(2):
        for chunks in ([b"first", b"second"], []):
            client.send(chunked("/p", *chunks))
            environ = client.read().json()
            assert environ["CONTENT_LENGTH"] == str(len(b"".join(chunks)))
            assert environ["wsgi.input_terminated"] is True
            assert "HTTP_TRANSFER_ENCODING" not in environ
    assert "CONTENT_LENGTH" not in client.get("/p").json()


def test_50_chunks_without_end_of_line_are_read_in_linear_time(client: Connection) -> None:
    client.send(chunked("/read/readlines", *[b"x" * 1000] * 2000))
    assert [len(part) for part in client.read().json()] == [2_000_000]


def test_50_a_request_without_content_is_at_its_end(client: Connection) -> None:
    assert client.get("/read/all").json() == ["", "", ""]


def test_50_content_that_is_not_read_is_discarded(client: Connection) -> None:
    client.send(post("/unread", b"content") + post("/read/all", b"next"))
    assert client.read().content == b"unread"
    assert client.read().json() == ["next", "", ""]
    assert client.get("/kept").content == b"content"


def test_50_an_input_is_over_with_its_request(client: Connection, threads: str) -> None:
    """One that is read as it arrives; what is there as a whole may be read for ever."""
    head = chunked("/unread").partition(b"\r\n\r\n")[0]
    client.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
    if threads == "1":
        assert client.read_head().status == 100
        client.send(b"7\r\ncontent\r\n0\r\n\r\n")
    assert client.read().content == b"unread"
    with Connection(client.socket.getpeername()) as other:
        kept = other.get("/kept").content
    if threads == "1":
        assert kept == b"content"
    else:
        assert kept == b"RuntimeError: this request is over: its content cannot be read any more"


def test_50_a_content_that_is_cut_is_an_oserror(server: Server, threads: str) -> None:
    name = f"cut-{threads}"
    fields = "Host: test\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    with server.connect() as client:
        client.send(f"POST /read-fails/{name} HTTP/1.1\r\n{fields}".encode())
        assert client.read_head().status == 100
        client.send(b"5\r\nhalf")
    if threads == "1":
        # The application is called when all of it is there: never.
        with server.connect() as client:
            assert client.get("/hello").status == 200
        return
    found = wait_seen(server, lambda found: name in found["errors"])
    assert found["errors"][name] == "ClientDisconnected"
    assert "/read-fails/" not in "".join(server.lines)


def test_61_100_is_sent_when_the_application_reads(client: Connection, threads: str) -> None:
    fields = "Host: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    client.send(f"POST /read/all HTTP/1.1\r\n{fields}".encode())
    assert client.read_head().status == 100
    client.send(b"hi")
    assert client.read().json() == ["hi", "", ""]
    client.send(f"POST /unread HTTP/1.1\r\n{fields}".encode())
    if threads == "1":
        assert client.read_head().status == 100
        client.send(b"hi")
        assert client.read().status == 200
    else:
        reply = client.read()
        assert (reply.status, reply.interim, reply.is_last) == (200, [], True)
    with Connection(client.socket.getpeername()) as other:
        other.get("/kept")
