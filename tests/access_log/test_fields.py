"""Fields of the access log that come from the response, its start, the content and the queue."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support.client import Connection
from support.h2 import Client, data, get, post
from support.server import Server, Start

pytestmark = pytest.mark.slow

ON_INTERFACES = ("on_native", "on_asgi", "on_wsgi")
PATHS = ("/", "/later", "/plain", "/streamed", "/")

Lines = Callable[..., tuple[Server, Callable[[], list[str]]]]


@pytest.fixture
def lines_of(start: Start, tmp_path: Path) -> Lines:
    """Return a function that serves with a template; it returns the server and its lines' reader.

    The reader ends the server.
    """

    def serve(name: str, form: str, *options: str) -> tuple[Server, Callable[[], list[str]]]:
        log = tmp_path / "access.log"
        given = ("--access-log", str(log), "--access-log-format", form, "--h2c", *options)
        server = start(f"logged/{name}.py", *given)

        def lines() -> list[str]:
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            return log.read_text("ascii").splitlines()

        return server, lines

    return serve


@pytest.mark.parametrize("threads", [(), ("--threads", "1")], ids=["pooled", "inline"])
@pytest.mark.parametrize("name", ON_INTERFACES)
def test_fields_of_responses(lines_of: Lines, name: str, threads: tuple[str, ...]) -> None:
    form = '{path} "{response.x-cache}" {response.X-Cache} {response.content-type} {response.date}'
    server, lines = lines_of(name, form, *threads)
    with server.connect() as client, Client(server.connect()) as streams:
        for index, path in enumerate(PATHS):
            assert client.get(path).status == 200
            assert streams.request(2 * index + 1, path).status == 200
    plain = {"on_native": "text/plain;\\x20charset=utf-8"}.get(name, "-")
    expected = []
    for path in PATHS:
        own = ('"hit, a b"', "hit,\\x20a\\x20b", "text/x")
        shown = own if path != "/plain" else ('"-"', "-", plain)
        expected += [" ".join((path, *shown, "-"))] * 2
    assert lines() == expected


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_the_time_until_the_response_starts(lines_of: Lines, name: str) -> None:
    form = "{path} {first_byte_us} {duration_us} {first_byte_ms} {duration_ms}"
    server, lines = lines_of(name, form)
    paths = ("/", "/streamed") + (() if name == "on_asgi" else ("/slow",))
    with server.connect() as client, Client(server.connect()) as streams:
        for index, path in enumerate(paths):
            client.get(path)
            streams.request(2 * index + 1, path)
    times: dict[str, list[list[int]]] = {}
    for line in lines():
        path, *numbers = line.split()
        times.setdefault(path, []).append([int(number) for number in numbers])
    rows = [row for rows in times.values() for row in rows]
    for first_us, duration_us, first_ms, duration_ms in rows:
        assert 0 < first_us <= duration_us
        assert first_ms <= duration_ms
    for first_us, duration_us, first_ms, duration_ms in times["/streamed"]:
        assert duration_us - first_us >= 90_000
        assert duration_ms - first_ms >= 80
    assert all(row[0] >= 100_000 and row[2] >= 80 for row in times.get("/slow", []))


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_content_that_was_received(lines_of: Lines, name: str) -> None:
    server, lines = lines_of(name, "{method} {received_bytes} {content_bytes}")
    paths = ("/whole", "/parts") if name == "on_native" else ("/", "/")
    with server.connect() as client, Client(server.connect()) as streams:
        client.get("/plain")
        for index, path in enumerate(paths):
            assert client.post(path, b"x" * 10).content == b"10"
            head = f"POST {path} HTTP/1.1\r\nHost: a\r\n".encode()
            client.send(head + b"Content-Length: 20\r\n\r\n" + b"x" * 5)
            client.send(b"x" * 15)
            assert client.read().content == b"20"
            client.send(head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\n")
            client.send(b"2\r\nxx\r\n0\r\n\r\n")
            assert client.read().content == b"7"
            stream = 4 * index + 1
            streams.send(post(stream, path), data(stream, b"x" * 9, is_last=True))
            assert streams.response(stream).content == b"9"
            streams.send(post(stream + 2, path), data(stream + 2, b"x" * 4))
            streams.send(data(stream + 2, b"x" * 4, is_last=True))
            assert streams.response(stream + 2).content == b"8"
    found = lines()
    assert found[0] == "GET 0 1"
    assert found[1:] == ["POST 10 2", "POST 20 2", "POST 7 1", "POST 9 1", "POST 8 1"] * 2


def start_held(client: Connection) -> None:
    """Send a request, and wait until its handler waits for its content, of one byte."""
    client.send(b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n")
    client.send(b"Expect: 100-continue\r\n\r\n")
    assert client.read_head().status == 100


def test_requests_that_wait_for_a_place(lines_of: Lines) -> None:
    server, lines = lines_of("on_native", "{path} {queue_ms}", "--concurrency-max", "1")
    with server.connect() as client, server.connect() as other, Client(server.connect()) as streams:
        start_held(client)
        other.send(b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        streams.send(get(1, "/later"))
        client.send(b"x")
        assert streams.response(1).status == 200
        assert [client.read().status, other.read().status, other.read().status] == [200] * 3
    waited = {path: int(ms) for path, ms in (line.split() for line in lines())}
    assert waited["/held"] == 0
    assert waited["/plain"] >= 50, waited
    assert waited["/later"] >= 50, waited


def test_requests_that_wait_for_a_thread(lines_of: Lines) -> None:
    server, lines = lines_of("on_wsgi", "{queue_ms} {duration_ms}", "--threads", "2")
    with server.connect() as a, server.connect() as b, server.connect() as c:
        for client in (a, b, c):
            client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.read().status for client in (a, b, c)] == [200] * 3
    waited = sorted(int(line.split()[0]) for line in lines())
    assert waited[0] < 50 < waited[2], waited


def test_a_client_that_leaves_has_no_start(lines_of: Lines) -> None:
    server, lines = lines_of("on_native", "{status} {first_byte_ms} {response.x-cache}")
    with server.connect() as client:
        start_held(client)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with server.connect() as client:
        client.get("/slow")
    first, second = sorted(lines(), reverse=True)
    assert first == "499 - -"
    assert second.startswith("200 ")
