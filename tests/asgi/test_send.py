"""What `send()` makes of an application's messages (points 20, 22 to 26 and 29)."""

from __future__ import annotations

import ast
import select
import signal
from pathlib import Path

import pytest

from asgi.held import Seen, release, wait_held
from support.client import Connection
from support.request import head
from support.server import APPLICATIONS, Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/sending.py"


def keys(name: str) -> list[str]:
    """Return the keys of a table in the application."""
    for node in ast.parse((APPLICATIONS / APP).read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            assert isinstance(node.value, ast.Dict)
            return [ast.literal_eval(key) for key in node.value.keys if key]
    raise LookupError(name)


def test_20_nothing_is_sent_before_the_first_body(
    server: Server, client: Connection, seen: Seen
) -> None:
    held = seen("held")
    client.send(head("GET", "/held"))
    wait_held(seen, held)
    assert not select.select([client.socket], [], [], 0)[0]
    release(server)
    reply = client.read()
    assert (reply.get("x-start"), reply.content) == ("sent", b"content")


def test_20_parts_are_streamed(client: Connection) -> None:
    reply = client.get("/stream")
    assert (reply.get("transfer-encoding"), reply.content) == ("chunked", b"012")
    assert client.get("/stream").status == 200


SHAPES = ("tuples", "lists", "tuple", "generator", "generators", "iterator")


@pytest.mark.parametrize("shape", SHAPES)
def test_22_headers_come_in_every_iterable_shape_and_leave_in_order(
    client: Connection, shape: str
) -> None:
    client.send(head("GET", f"/headers/{shape}"))
    client.socket.settimeout(10)
    reply = client.read()
    ours = ("server", "date", "content-length")
    assert [field for field in reply.fields if field[0] not in ours] == [
        ("x-a", "1"),
        ("x-b", "2"),
        ("x-a", "3"),
        ("x-mixed", ""),
    ]


def test_22_names_are_sent_as_the_application_wrote_them(client: Connection) -> None:
    client.send(head("GET", "/headers/tuples", "Connection: close"))
    reply = client.read_to_end()
    assert b"\r\nx-a: 1\r\nx-b: 2\r\nx-a: 3\r\nX-Mixed: \r\n" in reply


@pytest.mark.parametrize("name", keys("REFUSED"))
def test_22_what_is_no_header_raises(client: Connection, name: str) -> None:
    reply = client.get(f"/refused/{name}")
    assert (reply.status, reply.content in (b"TypeError", b"ValueError")) == (200, True)


def test_23_framing_and_the_connection_are_the_servers(client: Connection) -> None:
    reply = client.get("/ours")
    assert (reply.get("transfer-encoding"), reply.get("content-length")) == (None, "4")
    assert (reply.get("connection"), reply.get("keep-alive")) == (None, None)
    assert client.get("/ours").content == b"mine"


def test_23_fields_that_are_left_out_are_logged_once(start: Start) -> None:
    server = start("asgi/sending.py")
    with server.connect() as client:
        for _ in range(3):
            assert client.get("/ours").content == b"mine"
    for name in ("connection", "keep-alive", "transfer-encoding"):
        server.wait_line(f"WARN .*the application sets the field {name}, which is about the conn")
    server.signal(signal.SIGTERM)
    server.wait()
    assert server.errors.count("which is about the connection") == 3


def test_23_a_length_is_kept(client: Connection) -> None:
    for _ in range(2):
        reply = client.get("/sized/5")
        assert (reply.get("content-length"), reply.content) == ("5", b"abcde")


WRONG = {3: ("longer", b"abc"), 4: ("longer", b"abc"), 9: ("shorter", b"abc")}
"""The part that does not fit raises, and is not sent."""


@pytest.mark.parametrize("when", ["now", "later"])
@pytest.mark.parametrize("said", WRONG)
def test_23_content_of_another_length_raises_and_cuts_the_response(
    server: Server, client: Connection, said: int, when: str
) -> None:
    client.send(head("GET", f"/sized/{said}/{when}"))
    assert client.read_head().get("content-length") == str(said)
    how, content = WRONG[said]
    assert client.read_to_end() == content
    server.wait_line(f"GET /sized/{said}/{when}: the application raised")
    server.wait_line(f"RuntimeError: Response content {how} than Content-Length")


@pytest.mark.parametrize("kind", ["whole", "empty"])
@pytest.mark.parametrize("when", ["now", "later"])
def test_23_a_whole_response_of_another_length_is_500_and_the_connection_goes_on(
    server: Server, client: Connection, kind: str, when: str
) -> None:
    client.send(head("GET", f"/sized/4/{when}/{kind}") + head("GET", "/sized/5"))
    assert client.read().status == 500
    assert client.read().content == b"abcde"
    how = {"whole": "longer", "empty": "shorter"}[kind]
    server.wait_line(f"RuntimeError: Response content {how} than Content-Length")


def test_23_an_application_may_go_on_after_a_part_of_another_length(client: Connection) -> None:
    for _ in range(2):
        assert client.get("/resized").content == b"abcde"


def test_23_an_empty_response_of_no_length_is_empty(client: Connection) -> None:
    client.send(head("GET", "/sized/0/now/empty") * 2)
    for _ in range(2):
        assert client.read().get("content-length") == "0"


def test_23_without_a_length_the_end_of_the_connection_is_the_end_for_http_1_0(
    client: Connection,
) -> None:
    client.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    reply = client.read()
    assert (reply.get("transfer-encoding"), reply.is_last, reply.content) == (None, True, b"012")


def test_23_with_a_length_a_connection_of_http_1_0_goes_on(client: Connection) -> None:
    for _ in range(2):
        client.send(b"GET /sized/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        reply = client.read()
        assert (reply.get("connection"), reply.content) == ("keep-alive", b"abcde")


def test_24_date_and_server_are_sent_once(client: Connection) -> None:
    for path in ("/sized/5", "/stream", "/ours"):
        reply = client.get(path)
        assert reply.get("server") == "bolide"
        assert (reply.get("date") or "").endswith(" GMT")


def test_24_those_of_the_application_take_their_place(client: Connection) -> None:
    reply = client.get("/named")
    assert reply.get("date") == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert reply.get("server") == "mine"


STATUSES = [
    (200, "4", "whole"),
    (200, "4", "parts"),
    (204, None, "whole"),
    (204, None, "parts"),
    (304, "4", "whole"),
    (304, "4", "parts"),
]


@pytest.mark.parametrize(("status", "length", "way"), STATUSES)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_25_head_204_and_304_have_no_content(
    client: Connection, seen: Seen, method: str, status: int, length: str | None, way: str
) -> None:
    before = seen("statuses")
    client.send(head(method, f"/status/{status}/{way}") * 2)
    for _ in range(2):
        reply = client.read(method)
        assert (reply.status, reply.get("content-length")) == (status, length)
        assert reply.content == (b"body" if (method, status) == ("GET", 200) else b"")
        assert reply.get("transfer-encoding") is None
    wait_until(lambda: seen("statuses") == before + 2)


@pytest.mark.parametrize("said", [5, 9])
@pytest.mark.parametrize("kind", ["", "/now/empty"])
def test_25_head_keeps_the_length(client: Connection, said: int, kind: str) -> None:
    client.send(head("HEAD", f"/sized/{said}{kind}") * 2)
    for _ in range(2):
        assert client.read("HEAD").get("content-length") == str(said)


def test_25_head_of_a_stream_ends_with_its_head(
    server: Server, client: Connection, seen: Seen
) -> None:
    before = seen("streams")
    client.send(head("HEAD", "/stream"))
    assert client.read("HEAD").status == 200
    wait_until(lambda: seen("streams") == before + 1)
    assert client.get("/stream").content == b"012"
    assert "HEAD /stream" not in "".join(server.lines)


@pytest.mark.parametrize("status", ["0", "99", "100", "101", "199", "600", "1000"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_25_no_final_response_has_such_a_status(
    client: Connection, method: str, status: str
) -> None:
    client.send(head(method, f"/no_status/{status}"))
    assert client.read(method).get("content-length") == str(len("ValueError"))


@pytest.mark.parametrize("status", ["str", "none", "float"])
def test_25_a_status_is_a_number(client: Connection, status: str) -> None:
    assert client.get(f"/no_status/{status}").content in (b"TypeError", b"ValueError")


CONTENTS = {"second-start": b"end", "start-inside": b"partend", "body-after-parts": b"part"}
CONTENTS |= {"start-after": b"whole", "body-after": b"whole", "unknown-inside": b"partend"}
CONTENTS |= {"str-body": b"partend"}


@pytest.mark.parametrize("when", ["now", "later"])
@pytest.mark.parametrize("name", keys("ORDERS"))
def test_26_a_message_out_of_order_raises_and_does_not_reach_the_client(
    client: Connection, seen: Seen, name: str, when: str
) -> None:
    client.send(head("GET", f"/order/{name}/{when}") * 2)
    for _ in range(2):
        reply = client.read()
        assert (reply.status, reply.content) == (200, CONTENTS.get(name, b"end"))
    wait_until(lambda: seen(name) in ("RuntimeError", "TypeError"))


@pytest.mark.parametrize("when", ["now", "later"])
def test_26_a_response_sent_by_the_headers_of_another_one_is_the_only_one(
    client: Connection, seen: Seen, when: str
) -> None:
    before = seen("nested")
    client.send(head("GET", f"/nested/{when}") * 2)
    for _ in range(2):
        reply = client.read()
        assert (reply.status, reply.content, reply.get("x-inner")) == (200, b"inner", "1")
        assert reply.get("x-outer") is None
    assert seen("nested") == before + 2


@pytest.mark.parametrize("when", ["now", "later"])
@pytest.mark.parametrize("size", ["whole", "parts"])
@pytest.mark.parametrize("way", ["bytearray", "memoryview", "strided"])
def test_29_a_buffer_may_be_changed_when_send_has_returned(
    client: Connection, way: str, size: str, when: str
) -> None:
    assert client.get(f"/buffers/{way}/{size}/{when}").content == b"original"


@pytest.mark.parametrize(("size", "content"), [("whole", b""), ("parts", b"end")])
def test_a_body_that_is_none_is_empty(client: Connection, size: str, content: bytes) -> None:
    reply = client.get(f"/no_body/{size}")
    assert (reply.status, reply.content) == (200, content)


@pytest.mark.parametrize("when", ["now", "later"])
def test_29_send_acts_when_it_is_awaited(client: Connection, when: str) -> None:
    client.send(head("GET", f"/unawaited/{when}") * 3)
    for _ in range(3):
        reply = client.read()
        assert (reply.status, reply.content) == (200, b"in order")


@pytest.mark.parametrize("when", ["now", "later"])
@pytest.mark.parametrize("reuse", ["0", "1"])
def test_29_what_is_never_awaited_is_not_sent_and_warns(
    start: Start, loop: str, when: str, reuse: str
) -> None:
    """With warnings as errors, the interpreter prints what nobody can catch."""
    server = start(APP, "--loop", loop, env={"BOLIDE_REUSE": reuse})
    with server.connect() as client:
        for _ in range(2):
            reply = client.get(f"/dropped/{when}")
            assert (reply.status, reply.content) == (200, b"sent")
            server.wait_line("RuntimeWarning: coroutine '.*send' was never awaited")


BY_NAME = """
import inspect

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send(message={"type": "http.response.start", "status": 200})
    wrong = []
    for arguments, names in (((), {}), ((1, 2), {}), ((), {"massage": 1}), ((1,), {"message": 1})):
        try:
            send(*arguments, **names)
        except TypeError as error:
            wrong.append(str(error))
    assert wrong == ["send() takes one argument: message"] * 4, wrong
    body = str(inspect.signature(send)).encode()
    await send({"type": "http.response.body", "body": body})
"""


def test_29_send_takes_its_message_by_name_and_has_a_signature(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(BY_NAME)
    with start("app:app", cwd=tmp_path).connect() as client:
        assert client.get("/").content == b"(message)"
