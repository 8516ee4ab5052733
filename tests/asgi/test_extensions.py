"""What goes beyond start and body (points 11, 30 and 31)."""

from __future__ import annotations

import ast

import pytest

from asgi.held import Seen
from support.client import Connection
from support.loops import Serving
from support.request import head
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/extended.py"
OPTIONS = ("--asgi-extensions", "pathsend,zerocopysend")
CONTENT = bytes(range(256)) * 1024
STEPS = pytest.mark.parametrize("step", ["first", "later"])
METHODS = pytest.mark.parametrize("method", ["GET", "HEAD"])


@STEPS
def test_30_trailers_go_to_a_client_that_accepts_them(client: Connection, step: str) -> None:
    client.send(head("GET", f"/trailers/{step}", "TE: trailers", "Connection: TE, close"))
    _, _, reply = client.read_to_end().partition(b"\r\n\r\n")
    assert reply == b"7\r\ncontent\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n"


@STEPS
def test_30_and_to_no_other(client: Connection, step: str) -> None:
    client.send(head("GET", f"/trailers/{step}", "Connection: close"))
    _, _, reply = client.read_to_end().partition(b"\r\n\r\n")
    assert reply == b"7\r\ncontent\r\n0\r\n\r\n"


@STEPS
def test_30_nor_to_http_1_0_nor_head(server: Server, step: str) -> None:
    with server.connect() as client:
        client.send(f"GET /trailers/{step} HTTP/1.0\r\nTE: trailers\r\n\r\n".encode())
        assert client.read_to_end().endswith(b"\r\n\r\ncontent")
    with server.connect() as client:
        client.send(head("HEAD", f"/trailers/{step}", "TE: trailers"))
        assert client.read("HEAD").content == b""
        assert client.get("/path").content == CONTENT


def test_30_fields_that_frame_are_no_trailers(client: Connection, seen: Seen) -> None:
    before = seen("refused")
    assert client.get("/forbidden", "TE: trailers").content == b"content"
    assert seen("refused") == before + 1


@STEPS
def test_31_hints_are_sent_before_the_response(client: Connection, step: str) -> None:
    client.send(head("GET", f"/hint/{step}", "Connection: close"))
    reply = client.read_to_end()
    hints = (
        b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n"
        b"link: </b.js>; rel=preload\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nlink: </c>; rel=x\r\n\r\nHTTP/1.1 200 OK\r\n"
    )
    assert reply.startswith(hints)
    assert reply.endswith(b"\r\n\r\nfinal")


def test_31_hints_are_not_for_http_1_0(client: Connection) -> None:
    client.send(b"GET /hint HTTP/1.0\r\n\r\n")
    reply = client.read_to_end()
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert reply.endswith(b"\r\n\r\nfinal")


def test_31_hints_keep_to_their_request_in_a_pipeline(client: Connection) -> None:
    client.send(head("GET", "/path") + head("GET", "/hint", "Connection: close"))
    assert client.read().content == CONTENT
    assert client.read_to_end().count(b"HTTP/1.1 103 Early Hints\r\n") == 2


@STEPS
@METHODS
def test_31_a_path_is_sent_with_its_length(client: Connection, method: str, step: str) -> None:
    for _ in range(2):
        client.send(head(method, f"/path/{step}") * 2)
        for _ in range(2):
            reply = client.read(method)
            assert reply.get("content-length") == str(len(CONTENT))
            assert reply.get("x-file") == "path"
            assert reply.content == (CONTENT if method == "GET" else b"")


def test_31_a_file_that_is_too_short_raises(server: Server, client: Connection) -> None:
    assert client.get("/short").status == 500
    server.wait_line("GET /short: the application raised")
    server.wait_line("RuntimeError: Response content shorter than Content-Length")
    assert client.get("/path").content == CONTENT


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/missing", b"no such file"),
        ("/folder", b"no file"),
        ("/pipe", b"no file"),
        ("/fifo", b"no file"),
    ],
)
def test_31_what_cannot_be_sent_is_the_applications_to_handle(
    client: Connection, path: str, content: bytes
) -> None:
    reply = client.get(path)
    assert (reply.status, reply.content) == (200, content)


def test_31_parts_of_a_file_are_sent_from_the_loop_of_another_thread(client: Connection) -> None:
    expected = CONTENT[1000:1005] + b"-between-" + CONTENT[-3:]
    for _ in range(3):
        assert client.get("/copied_elsewhere").content == expected


def test_28_a_file_from_another_thread_does_not_wait_for_a_request_that_is_over(
    server: Server, seen: Seen
) -> None:
    before = seen("too late")
    with server.connect() as client:
        client.send(head("GET", "/too_late"))
        assert b"part" in client.read_to_end()
    with server.connect() as client:
        assert client.get("/go_on").status == 200
    wait_until(lambda: seen("too late") == before + 1)


@STEPS
def test_31_parts_of_a_file_keep_their_order(client: Connection, step: str) -> None:
    expected = CONTENT[1000:1005] + b"-between-" + CONTENT[-3:]
    for _ in range(3):
        client.send(head("GET", f"/copied/{step}") * 2)
        for _ in range(2):
            reply = client.read()
            assert (reply.get("transfer-encoding"), reply.content) == ("chunked", expected)
    client.send(head("HEAD", f"/copied/{step}"))
    assert client.read("HEAD").content == b""
    assert client.get("/path").content == CONTENT


@pytest.mark.parametrize("given", ["file", "descriptor"])
def test_31_a_part_without_an_offset_follows_the_one_before(client: Connection, given: str) -> None:
    reply = client.get(f"/copied_in_turn/{given}")
    assert reply.content == CONTENT[1000:1012] + b"1012"


def test_31_files_are_sent_on_demand_only(serving: Serving) -> None:
    with serving(APP).connect() as client:
        assert client.get("/path").status == 500
        assert client.get("/copied").status == 500
    with serving("asgi/scopes.py", *OPTIONS).connect() as client:
        extensions = ast.literal_eval(client.get("/").content.decode())["extensions"]
    assert {"http.response.pathsend", "http.response.zerocopysend"} <= extensions.keys()


def test_26_extensions_out_of_place_raise_and_harm_nothing(client: Connection) -> None:
    assert client.get("/misplaced").content == b"7 refused"
    assert client.get("/path").content == CONTENT
