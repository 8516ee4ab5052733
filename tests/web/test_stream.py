"""The sending of an async iterator's parts."""

import asyncio
import http.client
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bolide.errors import ClientDisconnected
from bolide.web import App, Request, Response
from bolide.web.stream import stream_async
from bolide.web.testclient import TestClient


class Recorder:
    """Stands for the core's stream: keeps what it is sent, or fails at the n-th part."""

    def __init__(self, fails_at: int = -1) -> None:
        self.parts: list[bytes] = []
        self._fails_at = fails_at

    async def send(self, data: bytes) -> None:
        """Accept a part."""
        if len(self.parts) == self._fails_at:
            raise ClientDisconnected
        self.parts.append(data)


class Source:
    """Async generators that record how they ended."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts
        self.is_closed = False

    async def iterate(self) -> AsyncIterator[Any]:
        """Yield the parts."""
        try:
            for part in self._parts:
                yield part
        finally:
            self.is_closed = True


def send(source: Source, recorder: Any) -> None:
    asyncio.run(stream_async(recorder, source.iterate()))


def test_parts_are_sent_in_order_and_empty_ones_passed_over() -> None:
    recorder = Recorder()
    send(Source(b"a", "é", b"", "", b"b"), recorder)
    assert recorder.parts == [b"a", b"\xc3\xa9", b"b"]
    assert all(type(part) is bytes for part in recorder.parts)


@pytest.mark.parametrize("part", [1, None, {"a": 1}, [b"a"], bytearray(b"a")])
def test_other_parts_are_refused_and_the_iterator_closed(part: Any) -> None:
    recorder, source = Recorder(), Source(b"a", part, b"b")
    with pytest.raises(TypeError, match=f"bytes or str, not {type(part).__name__}"):
        send(source, recorder)
    assert recorder.parts == [b"a"]
    assert source.is_closed


def test_a_disconnection_closes_the_iterator() -> None:
    source = Source(b"a", b"b", b"c")
    with pytest.raises(ClientDisconnected):
        send(source, Recorder(fails_at=1))
    assert source.is_closed


def test_an_iterator_without_aclose_is_good_enough() -> None:
    class Countdown:
        left = 2

        def __aiter__(self) -> "Countdown":
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return str(self.left)

    recorder: Any = Recorder()
    asyncio.run(stream_async(recorder, Countdown()))
    assert recorder.parts == [b"1", b"0"]


def read_head(reader: Any) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        assert line, "the connection ended within the header section"
        head += line
    return head


def failing_parts(error: Any) -> Iterator[Any]:
    yield b"first"
    if isinstance(error, Exception):
        raise error
    yield error


async def failing_async_parts(error: Any) -> AsyncIterator[Any]:
    for part in failing_parts(error):
        yield part


async def waiting_async_parts(error: Any) -> AsyncIterator[Any]:
    for part in failing_parts(error):
        await asyncio.sleep(0)
        yield part


SOURCES = [failing_parts, failing_async_parts, waiting_async_parts]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("error", [OSError("disk"), 1, None])
def test_a_failing_iterator_truncates_the_response_and_is_logged_once(
    source: Callable[[Any], Any], error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    app.get("/")(lambda request: source(error))
    with TestClient(app) as client:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            client.get("/")
        assert client.get("/missing").status == 404  # the server goes on
    [record] = [record for record in caplog.records if record.name == "bolide.error"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is (OSError if isinstance(error, OSError) else TypeError)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_that_goes_away_ends_the_iterator(is_async: bool) -> None:
    is_closed = threading.Event()
    app = App()

    def forever() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            is_closed.set()

    async def forever_async() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            is_closed.set()

    app.get("/")(lambda request: forever_async() if is_async else forever())
    with TestClient(app) as client:
        with client.connect() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert sock.recv(12) == b"HTTP/1.1 200"
            assert not is_closed.is_set()
        assert is_closed.wait(10)
        assert client.get("/missing").status == 404


@pytest.mark.parametrize("is_async", [False, True])
def test_an_iterator_is_not_far_ahead_of_its_client(is_async: bool) -> None:
    part, count = b"x" * 16384, 400
    produced = [0]
    app = App()

    def parts() -> Iterator[bytes]:
        for _ in range(count):
            produced[0] += len(part)
            yield part

    async def async_parts() -> AsyncIterator[bytes]:
        for each in parts():
            yield each

    app.get("/")(lambda request: async_parts() if is_async else parts())
    with TestClient(app) as client, client.connect() as sock:
        sock.sendall(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
        received, ahead_most = 0, 0
        while content := sock.recv(16384):
            received += len(content)
            ahead_most = max(ahead_most, produced[0] - received)
    assert produced[0] == len(part) * count
    assert received > produced[0]
    assert ahead_most < 2_000_000  # the kernel's buffers and ours, of 6.5 MB in all


def test_each_part_leaves_when_it_is_yielded() -> None:
    may_go_on = asyncio.Event()
    app = App()

    @app.get("/")
    async def parts(request: Request) -> AsyncIterator[str]:
        yield "first"
        await may_go_on.wait()
        yield "second"

    @app.get("/go")
    async def go(request: Request) -> None:
        may_go_on.set()

    with TestClient(app) as client, client.connect() as sock, sock.makefile("rb") as reader:
        sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert b"\r\nTransfer-Encoding: chunked\r\n" in read_head(reader)
        assert reader.read(10) == b"5\r\nfirst\r\n"
        assert client.get("/go").status == 204
        assert reader.read(11) == b"6\r\nsecond\r\n"
        assert reader.read(5) == b"0\r\n\r\n"


@pytest.mark.parametrize("make", [iter, lambda parts: Response(iter(parts))])
def test_a_streamed_response_to_head_has_no_content(make: Callable[[Any], Any]) -> None:
    app = App()
    app.get("/")(lambda request: make(["a", "b"]))
    with TestClient(app) as client:
        result = client.head("/")
    assert (result.status, result.content) == (200, b"")


def test_a_streamed_response_on_http_1_0_ends_with_the_connection() -> None:
    app = App()
    app.get("/")(lambda request: iter(["a", "b"]))
    with TestClient(app) as client, client.connect() as sock, sock.makefile("rb") as reader:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        head = read_head(reader).lower()
        assert b"transfer-encoding" not in head
        assert b"content-length" not in head
        assert reader.read() == b"ab"
