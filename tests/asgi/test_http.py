"""ASGI's HTTP protocol over the socket, on both event loops.

Each test names the points of the specification (HTTP & WebSocket ASGI message format 2.5) that it
proves, by what an application or a client sees.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import APPLICATIONS
from reply import Connection
from running import Server

APP = "asgi_plain.py"
PATIENCE_S = 10


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Serve the application on an event loop."""
    server = Server([APP, "--port", "0", "--loop", request.param], APPLICATIONS)
    server.wait_ready()
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client


def seen(server: Server) -> dict[str, Any]:
    """Ask what the application has seen."""
    with server.connect() as client:
        found: dict[str, Any] = client.get("/seen").json()
        return found


def wait_seen(server: Server, name: str, value: object) -> None:
    """Wait until the application has seen it."""
    end = time.monotonic() + PATIENCE_S
    while seen(server)[name] != value:
        assert time.monotonic() < end, seen(server)


def test_scope(server: Server, client: Connection) -> None:
    reply = client.get("/x%20y/%252F?q=%20&r", "X-A: 1", "x-a:  2 ")
    scope = reply.json()
    host, port = server.address
    assert scope.pop("client") == str(client.socket.getsockname())
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5", "mark": "changed"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "root_path": "",
        "path": "/x y/%2F",
        "raw_path": "b'/x%20y/%252F'",
        "query_string": "b'q=%20&r'",
        "headers": "[(b'host', b'test'), (b'x-a', b'1'), (b'x-a', b'2')]",
        "server": str((host, port)),
        "state": {"started": True, "mark": "changed"},
    }


def test_scope_is_fresh_for_each_request(client: Connection) -> None:
    first, second = client.get("/"), client.get("/")
    assert first.json() == second.json()
    assert second.json()["type"] == "http"


@pytest.mark.parametrize("size", [0, 1, 1000, 65535, 65536, 65537, 200_000, 3_000_000])
@pytest.mark.parametrize("path", ["/upload/now", "/upload/late"])
def test_content_is_whole(client: Connection, path: str, size: int) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n"
    client.send(head.encode() + b"c" * size)
    assert client.read().content == f"{size} True".encode()


def test_content_comes_dechunked(client: Connection) -> None:
    client.send(b"POST /upload/now HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.send(b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")
    assert client.read().content == b"6 True"


def test_100_is_sent_when_the_application_receives(client: Connection) -> None:
    fields = "Host: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    client.send(f"POST /upload/now HTTP/1.1\r\n{fields}".encode())
    assert client.read_head().status == 100
    client.send(b"hi")
    assert client.read().content == b"2 True"


def test_a_cut_content_is_a_disconnect(server: Server) -> None:
    before = seen(server)["disconnects"]
    with server.connect() as client:
        client.send(b"POST /upload/now HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\nhalf")
    wait_seen(server, "disconnects", before + 1)


def test_receive_behind_the_content_waits_for_the_disconnect(server: Server) -> None:
    before = seen(server)["disconnects"]
    with server.connect() as client:
        client.send(b"GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
        assert seen(server)["disconnects"] == before
    wait_seen(server, "disconnects", before + 1)


def test_receive_behind_the_answer_gives_the_disconnect(server: Server, client: Connection) -> None:
    assert client.get("/after").content == b"done"
    wait_seen(server, "after", "http.disconnect")
    assert client.get("/after").content == b"done"


def test_a_cancelled_receive_loses_nothing(server: Server, client: Connection) -> None:
    before = seen(server)["held"]
    client.send(b"POST /hold HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\n")
    wait_seen(server, "held", before + 1)
    client.send(b"body")
    assert client.read().content == b"body"


def test_parts_are_streamed(client: Connection) -> None:
    reply = client.get("/stream")
    assert (reply.get("transfer-encoding"), reply.content) == ("chunked", b"012")
    assert client.get("/").status == 200


@pytest.mark.parametrize(("said", "content"), [(5, b"abcde"), (4, b"abcd"), (3, b"abc")])
def test_a_length_is_kept_and_what_is_beyond_it_dropped(
    client: Connection, said: int, content: bytes
) -> None:
    reply = client.get(f"/sized/{said}")
    assert (reply.get("content-length"), reply.content) == (str(said), content)
    assert client.get("/").status == 200


def test_an_answer_shorter_than_its_length_is_cut(client: Connection) -> None:
    client.send(b"GET /sized/9 HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.read_head().get("content-length") == "9"
    assert client.read_to_end() == b"abcde"


def test_an_empty_answer_of_another_length_is_cut_and_nothing_takes_its_place(
    client: Connection,
) -> None:
    client.send(b"GET /sized/9/empty HTTP/1.1\r\nHost: test\r\n\r\n" * 2)
    assert client.read_head().get("content-length") == "9"
    assert client.read_to_end() == b""


def test_an_empty_answer_to_head_keeps_its_length(client: Connection) -> None:
    client.send(b"HEAD /sized/9/empty HTTP/1.1\r\nHost: test\r\n\r\n" * 2)
    for _ in range(2):
        assert client.read("HEAD").get("content-length") == "9"


def test_an_empty_answer_of_no_length_is_empty(client: Connection) -> None:
    client.send(b"GET /sized/0/empty HTTP/1.1\r\nHost: test\r\n\r\n" * 2)
    for _ in range(2):
        assert client.read().get("content-length") == "0"


def test_nothing_is_sent_before_the_first_body(client: Connection) -> None:
    assert client.get("/raises/started").status == 500
    assert client.get("/").status == 200


@pytest.mark.parametrize("where", ["now", "later", "silent"])
def test_a_failure_is_500_logged_once_and_the_connection_goes_on(
    server: Server, client: Connection, where: str
) -> None:
    assert client.get(f"/raises/{where}").status == 500
    server.wait_line(f"/raises/{where}: the application")
    assert client.get("/").status == 200
    assert server.errors.count(f"/raises/{where}") == 1


def test_a_failure_inside_an_answer_cuts_it(client: Connection) -> None:
    client.send(b"GET /raises/begun HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.read_head().status == 200
    assert client.read_to_end() == b"4\r\npart\r\n"


def test_messages_out_of_order_raise_in_the_application(client: Connection) -> None:
    assert client.get("/order").content.endswith(b"came before http.response.start")


def test_send_to_a_client_that_has_gone_raises_an_oserror(server: Server) -> None:
    with server.connect() as client:
        client.send(b"GET /gone HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read_head().status == 200
    wait_seen(server, "gone", "ClientDisconnected")


def test_head_has_no_content_and_keeps_its_length(client: Connection) -> None:
    client.send(b"HEAD /sized/5 HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.read("HEAD").get("content-length") == "5"
    assert client.get("/").status == 200


def test_head_of_a_stream_ends_with_its_head(server: Server, client: Connection) -> None:
    before = seen(server)["streams"]
    client.send(b"HEAD /stream HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.read("HEAD").status == 200
    wait_seen(server, "streams", before + 1)
    assert client.get("/stream").content == b"012"
    assert "HEAD /stream" not in server.errors
