"""Streamed responses and contents: back-pressure both ways, disconnections, failures."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Connection
from support.loops import Serving
from support.server import Server, Start

pytestmark = pytest.mark.slow

APP = "aio_stream.py"
PART_BYTES = 10_000
PARTS_MAX = 100_000
"""Of a stream that is too long to be sent: 1 GB."""
AHEAD_PARTS_MAX = 1500
"""What the sockets' buffers and the server hold of it: far less than 30 MB."""
WAYS = ("async", "async-later", "async-of-def", "sync", "sync-later")
UPLOAD_BYTES = 15_000_000


@pytest.fixture
def server(serving: Serving) -> Iterator[Server]:
    server = serving(APP)
    with server.connect() as client:
        client.get("/forget")
    return server


def ask(server: Server, path: str) -> Any:
    with server.connect() as client:
        reply = client.get(path)
        return reply.json() if path == "/record" else reply.content


def wait_for_end(server: Server) -> list[str]:
    """Ask until something ended; return how."""
    while "finally" not in (ended := ask(server, "/record")["ended"]):
        assert "in a task" not in ended
    return ended


def wait_for_parts(server: Server) -> int:
    """Ask until no more parts are made; return how many there are."""
    before, calm = -1, 0
    while calm < 50:
        now = ask(server, "/record")["parts"]
        calm = calm + 1 if now == before else 0
        before = now
    return before


def abort(client: Connection) -> None:
    """Close a connection so that the server is notified at once."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def head(path: str, method: str = "GET", fields: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n".encode()


@pytest.mark.parametrize("way", WAYS)
def test_stream_arrives(server: Server, way: str) -> None:
    with server.connect() as client:
        for parts in (0, 1, 200):
            reply = client.get(f"/{way}/{parts}")
            assert (reply.status, len(reply.content)) == (200, parts * PART_BYTES)
    assert set(wait_for_end(server)) == {"complete", "finally"}


@pytest.mark.parametrize("way", WAYS)
def test_generator_waits_for_its_reader(server: Server, way: str) -> None:
    parts = 2 * AHEAD_PARTS_MAX
    with server.connect() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.send(head(f"/{way}/{parts}"))
        client.read_head()
        ahead = wait_for_parts(server)
        assert 1 <= ahead <= AHEAD_PARTS_MAX
        size, end = len(client._received), client._received[-5:]
        while not end.endswith(b"0\r\n\r\n"):
            data = client.socket.recv(1 << 20)
            assert data
            size, end = size + len(data), (end + data)[-5:]
        assert size > parts * PART_BYTES
    assert wait_for_end(server)[0] == "complete"


@pytest.mark.parametrize("way", WAYS)
def test_generator_ends_with_its_client(server: Server, way: str) -> None:
    with server.connect() as client:
        client.send(head(f"/{way}/{PARTS_MAX}"))
        assert client.read_head().status == 200
        wait_for_parts(server)
        abort(client)
        assert wait_for_end(server) == ["closed", "finally"]
    assert ask(server, "/forget") == b"ok"


def test_generator_that_waits_ends_with_its_client(server: Server) -> None:
    with server.connect() as client:
        client.send(head("/waits"))
        assert client.read_head().status == 200
        abort(client)
        assert wait_for_end(server) == ["cancelled", "finally"]


@pytest.mark.parametrize("way", WAYS)
def test_head_runs_no_generator_to_its_end(server: Server, way: str) -> None:
    with server.connect() as client:
        client.send(head(f"/{way}/{PARTS_MAX}", "HEAD"))
        assert client.read("HEAD").status == 200
        assert client.get("/go-on").status == 200
    assert ask(server, "/record")["parts"] <= AHEAD_PARTS_MAX


@pytest.mark.parametrize("way", ["async", "async-later", "sync"])
def test_failing_generator_truncates_the_response_and_is_logged_once(
    server: Server, way: str
) -> None:
    logged = len(server.lines)
    with server.connect() as client:
        client.send(head(f"/fails/{way}"))
        assert client.read_head().get("transfer-encoding") == "chunked"
        received = b""
        while data := client.socket.recv(1000):
            received += data
        assert b"0\r\n\r\n" not in client._received + received
    server.wait_line(f"KeyError: '{way}'")
    assert ask(server, "/go-on") == b"ok"
    assert "".join(server.lines[logged:]).count("Traceback") == 1


@pytest.mark.parametrize("path", ["/body", "/body-with-timeouts"])
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_content_comes_slowly(server: Server, path: str, size: int) -> None:
    with server.connect() as client:
        client.send(head(path, "POST", "Transfer-Encoding: chunked\r\n"))
        for number in range(size):
            client.send(b"1\r\nx\r\n")
            if number % 100 == 0:
                ask(server, "/record")
        client.send(b"0\r\n\r\n")
        assert client.read().content == str(size).encode()


def test_two_contents_are_pipelined(server: Server) -> None:
    with server.connect() as client:
        first = head("/body", "POST", "Content-Length: 5\r\n") + b"12345"
        second = head("/body", "POST", "Content-Length: 70000\r\n") + b"x" * 70_000
        client.send(first + second + first)
        assert [client.read().content for _ in range(3)] == [b"5", b"70000", b"5"]
    assert ask(server, "/record")["bodies"] == [5, 70000, 5]


def test_ignored_content_is_passed_over(server: Server) -> None:
    with server.connect() as client:
        client.send(head("/ignores", "POST", "Content-Length: 5\r\n"))
        assert client.read().content == b"ignored"
        client.send(b"12345" + head("/go-on"))
        assert client.read().content == b"ok"


def test_upload_waits_for_its_reader(server: Server) -> None:
    with server.connect() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        client.send(head("/stream", "POST", f"Content-Length: {UPLOAD_BYTES}\r\n"))
        client.socket.setblocking(False)
        sent = fill(client, UPLOAD_BYTES, server)
        assert sent < UPLOAD_BYTES
        assert ask(server, "/record")["received"] < 400_000
        client.socket.settimeout(10)
        assert ask(server, "/go-on") == b"ok"
        client.send(bytes(UPLOAD_BYTES - sent))
        assert client.read().content == str(UPLOAD_BYTES).encode()


def fill(client: Connection, size: int, server: Server) -> int:
    """Send until the server takes no more; return how many bytes it took."""
    sent, calm = 0, 0
    while sent < size and calm < 50:
        try:
            sent += client.socket.send(bytes(min(65_536, size - sent)))
            calm = 0
        except BlockingIOError:
            ask(server, "/record")
            calm += 1
    return sent


@pytest.mark.parametrize("path", ["/body", "/stream"])
@pytest.mark.parametrize("end", ["close", "abort", "shutdown"])
def test_client_ends_within_its_upload(server: Server, path: str, end: str) -> None:
    with server.connect() as client:
        client.send(head(path, "POST", "Content-Length: 100\r\n") + b"x" * 10)
        ask(server, "/record")
        if end == "abort":
            abort(client)
        elif end == "close":
            client.socket.close()
        else:
            client.socket.shutdown(socket.SHUT_WR)
        while not (ended := ask(server, "/record")["ended"]):
            pass
        assert ended == ["disconnected"]


def test_a_task_group_in_which_the_client_has_left_is_no_failure(start: Start) -> None:
    server = start(APP, "--log-level", "debug")
    with server.connect() as client:
        client.send(head("/body-in-group", "POST", "Content-Length: 100\r\n") + b"x" * 10)
        ask(server, "/record")
    line = server.wait_line("POST /body-in-group(.*)")[1]
    assert line.startswith(": the application raised because its client has disconnected")


def test_parts_are_echoed_as_they_come(server: Server) -> None:
    with server.connect() as client:
        client.send(head("/echo", "POST", "Transfer-Encoding: chunked\r\n"))
        client.send(b"3\r\nabc\r\n")
        assert client.read_head().status == 200
        assert [client._read_line(), client._read_line()] == [b"3", b"abc"]
        client.send(b"2\r\nde\r\n")
        assert [client._read_line(), client._read_line()] == [b"2", b"de"]
        client.send(b"0\r\n\r\n")
        assert [client._read_line(), client._read_line()] == [b"0", b""]
