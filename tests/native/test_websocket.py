"""WebSockets of native handlers, byte by byte."""

from __future__ import annotations

import json
import signal
import socket as sockets
from collections.abc import Iterator
from typing import Any

import pytest

from support import h2
from support.loops import Serving
from support.server import Server, Start
from support.waiting import wait_until
from support.websocket import (
    BINARY,
    KEY,
    PING,
    PONG,
    TEXT,
    Frame,
    WebSocket,
    close_frame,
    closing,
    connect,
    frame,
    handshake,
    text,
)

pytestmark = pytest.mark.slow

APP = "sockets/native.py"


@pytest.fixture(scope="module")
def server(serving: Serving) -> Server:
    """Serve the application."""
    return serving(APP)


@pytest.fixture
def socket(server: Server) -> Iterator[WebSocket]:
    """Connect to it."""
    with connect(server) as socket:
        yield socket


def noted(server: Server, name: str) -> Any:
    """Return what the application has noted."""
    with server.connect() as client:
        return client.get("/seen").json().get(name)


def test_an_echo(server: Server, socket: WebSocket) -> None:
    socket.open("/echo")
    for content in ("a", "", "\u20ac", "x" * 100_000):
        socket.say(content)
        assert socket.frame() == text(content)
    socket.send(frame(BINARY, b"\x00\xff"))
    assert socket.frame() == Frame(BINARY, b"\x00\xff")
    socket.send(close_frame(4000, "enough"))
    assert socket.frame().content[:2] == (4000).to_bytes(2, "big")
    assert socket.is_closed()
    wait_until(lambda: noted(server, "echo") == [False, 4000, "enough"])


def test_a_handler_knows_whether_its_client_is_there(server: Server, socket: WebSocket) -> None:
    socket.open("/presence")
    socket.say("here")
    assert socket.frame() == text("here")
    assert noted(server, "presence") == [False, False, False]
    socket.send(close_frame(1000))
    wait_until(lambda: noted(server, "presence") == [False, False, False, True])


@pytest.mark.parametrize("since", ["offer", "acceptance", "slow send"])
def test_a_handler_waits_for_its_client_to_leave(
    server: Server, socket: WebSocket, since: str
) -> None:
    socket.open(f"/watched/{since.replace(' ', '%20')}")
    while socket.frame() != text("watched"):
        pass
    wait_until(lambda: noted(server, "watched") == [since, False, False])
    socket.socket.close()
    wait_until(lambda: noted(server, "watched") == [since, True, True])


def test_a_task_that_outlives_its_handler_sees_the_end(server: Server, socket: WebSocket) -> None:
    socket.open("/outlived")
    assert socket.frame() == closing(1000)
    wait_until(lambda: noted(server, "outlived") is True)


def test_websockets_of_one_connection_are_kept_apart(start: Start) -> None:
    server = start(APP, "--h2c")
    with h2.Client(server.connect()) as client:
        client.read_until(h2.Kind.SETTINGS)

        def opens(stream: int, path: str) -> None:
            fields = h2.request_fields("CONNECT", path)
            fields[1:1] = [(b":protocol", b"websocket")]
            fields.append((b"sec-websocket-version", b"13"))
            client.send(h2.headers(stream, fields, is_last=False))
            while stream not in client.messages:
                client.read()

        def echoes(stream: int) -> bool:
            client.messages[stream].content.clear()
            client.send(h2.data(stream, frame(TEXT, f"of {stream}")))
            content = f"of {stream}".encode()
            return client.content(stream, len(content) + 2)[2:] == content

        for stream in (1, 3, 5):
            opens(stream, "/echo")
        assert [echoes(stream) for stream in (5, 1, 3)] == [True] * 3
        client.send(h2.reset(1))
        opens(7, "/watched/acceptance")
        opens(9, "/echo")
        assert [echoes(stream) for stream in (9, 3, 5)] == [True] * 3
        wait_until(lambda: noted(server, "watched") == ["acceptance", False, False])
        client.send(h2.reset(3), h2.reset(7))
        wait_until(lambda: noted(server, "watched") == ["acceptance", True, True])
        assert [echoes(stream) for stream in (9, 5)] == [True] * 2


@pytest.mark.parametrize(("path", "name"), [("default", "WebSocket"), ("own", "own")])
def test_tasks_share_a_name_unless_they_have_their_own(
    serving: Serving, path: str, name: str
) -> None:
    with connect(serving(APP, "--eager-tasks", "on")) as socket:
        socket.open(f"/task/{path}")
        socket.say("which?")
        assert socket.frame() == text(name)


@pytest.mark.parametrize("code", [4000, None])
def test_a_send_that_waits_ends_with_code_and_reason(
    server: Server, socket: WebSocket, code: int | None
) -> None:
    socket.open("/unread")
    wait_until(lambda: noted(server, "unread") == "waits")
    if code is None:
        socket.socket.close()
    else:
        socket.send(close_frame(code, "enough"))
    expected = [1006, ""] if code is None else [code, "enough"]
    wait_until(lambda: noted(server, "unread") == expected)


def test_a_send_in_another_thread_ends_although_the_message_has_left_before_it_waits(
    serving: Serving,
) -> None:
    with connect(serving("sockets/threads.py")) as socket:
        socket.open("/elsewhere")
        assert socket.frame() == text("x" * 70_000)
        socket.say("it has arrived")
        assert socket.frame() == text("returned")


@pytest.mark.parametrize("path", ["/native", "/asgi/"])
def test_a_handler_that_cannot_go_on_leaves_nothing_open(serving: Serving, path: str) -> None:
    server = serving("sockets/unlisted.py", "--eager-tasks", "on")
    with connect(server) as socket:
        socket.open(path)
        assert socket.frame() == closing(1011)
        socket.send(close_frame(1011))
        assert socket.is_closed()
    with server.connect() as client:
        assert client.get("/page").content == b"a page"


def test_a_burst_before_the_handshake_has_its_response(socket: WebSocket) -> None:
    texts = [str(number) for number in range(500)]
    socket.send(handshake("/echo") + b"".join(frame(TEXT, each) for each in texts))
    socket.read_opening()
    assert [socket.frame() for _ in texts] == [text(each) for each in texts]


def test_the_attributes_of_the_request(socket: WebSocket) -> None:
    socket.open("/request/a%20b/-7?q=1", "X-Own: 2", "Cookie: a=b")
    assert json.loads(socket.frame().content) == {
        "path": "/request/a b/-7",
        "path_params": {"name": "a b", "number": -7},
        "arguments": ["a b", -7],
        "query": "1",
        "header": "2",
        "cookies": {"a": "b"},
        "method": "GET",
        "host": "test",
        "client": "127.0.0.1",
        "state": {},
        "app": True,
    }
    assert socket.frame() == closing(1000)


def test_a_path_may_have_both(socket: WebSocket) -> None:
    assert socket.get("/both").content == b"a page"
    socket.open("/both")
    assert socket.frame() == text("a WebSocket")


@pytest.mark.parametrize(("path", "status"), [("/page", 200), ("/nowhere", 404), ("/wsgi/x", 404)])
def test_without_a_route_it_is_an_ordinary_request(
    socket: WebSocket, path: str, status: int
) -> None:
    socket.send(handshake(path))
    assert socket.read().status == status


def test_a_path_without_a_route_is_named_in_the_log(start: Start) -> None:
    server = start(APP)
    with connect(server) as socket:
        socket.send(handshake("/nowhere?secret"))
        assert socket.read().status == 404
    server.wait_line(
        r"WARN  bolide\.error: 1 request asked for WebSocket and was served as plain HTTP: "
        r"no WebSocket route at /nowhere$"
    )


@pytest.mark.parametrize(
    ("version", "fields", "lost"),
    [
        ("1.0", ("Upgrade: websocket", "Connection: Upgrade"), "a proxy sends HTTP/1.0"),
        ("1.1", ("Connection: Upgrade",), "Upgrade: websocket is missing"),
        ("1.1", ("Upgrade: websocket",), "Connection does not list Upgrade"),
    ],
)
def test_what_a_proxy_does_not_forward_is_named_in_the_log(
    start: Start, version: str, fields: tuple[str, ...], lost: str
) -> None:
    server = start(APP)
    with connect(server) as socket:
        lines = [f"GET /both HTTP/{version}", "Host: a", f"Sec-WebSocket-Key: {KEY}", *fields]
        socket.send("\r\n".join([*lines, "", ""]).encode())
        assert socket.read().content == b"a page"
    server.wait_line(
        rf"WARN  bolide\.error: 1 request with Sec-WebSocket-Key was served as plain HTTP: {lost}; "
        r"with nginx: proxy_http_version 1\.1; proxy_set_header Upgrade \$http_upgrade; "
        r"proxy_set_header Connection \"upgrade\";$"
    )


def test_a_path_that_only_opens_websockets_says_so(socket: WebSocket) -> None:
    reply = socket.get("/echo")
    assert (reply.status, reply.get("upgrade")) == (426, "websocket")
    assert reply.get("connection") == "Upgrade"
    socket.socket.sendall(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert socket.read().get("connection") == "close, Upgrade"


def test_an_acceptance_with_subprotocol_and_headers(socket: WebSocket) -> None:
    reply = socket.open("/accept", "Sec-WebSocket-Protocol: a, b")
    assert (reply.get("sec-websocket-protocol"), reply.get("x-own")) == ("b", "1")
    assert socket.frame() == text("['a', 'b'] b")
    assert socket.frame() == text("the handshake of this WebSocket has its response already")


@pytest.mark.parametrize("name", ["Accept", "Extensions", "Protocol", "Version"])
def test_an_acceptance_cannot_set_fields_of_the_handshake(socket: WebSocket, name: str) -> None:
    reply = socket.open(f"/accept/Sec-WebSocket-{name}")
    assert not [value for _, value in reply.fields if value == "own"]
    said = f"the server sets Sec-WebSocket-{name} itself; a subprotocol has its own argument"
    assert socket.frame() == text(said)


@pytest.mark.parametrize("name", ["Connection", "Upgrade"])
def test_fields_of_the_connection_are_left_out_of_an_acceptance(
    socket: WebSocket, name: str
) -> None:
    reply = socket.open(f"/accept/{name}")
    values = [value for field, value in reply.fields if field.lower() == name.lower()]
    assert values == [{"Connection": "Upgrade", "Upgrade": "websocket"}[name]]


def test_a_rejection(server: Server, socket: WebSocket) -> None:
    socket.send(handshake("/reject"))
    reply = socket.read()
    assert (reply.status, reply.content) == (401, b"who are you?")
    assert reply.get("www-authenticate") == "Basic"
    wait_until(lambda: noted(server, "rejected") == "this WebSocket was refused")


@pytest.mark.parametrize(
    ("path", "status", "content"),
    [
        ("/raises/status", 418, b"418 I'm a Teapot: no tea\n"),
        ("/raises/handled", 404, b"WebSocket: handled"),
        ("/raises/before", 500, b"500 Internal Server Error\n"),
        ("/unoffered", 500, b"500 Internal Server Error\n"),
        ("/returns/nothing", 403, b""),
        ("/returns/text", 200, b"text"),
        ("/returns/response", 410, b"gone"),
    ],
)
def test_a_handler_that_ends_before_it_accepts(
    socket: WebSocket, path: str, status: int, content: bytes
) -> None:
    socket.send(handshake(path))
    reply = socket.read()
    assert (reply.status, reply.content.lower()) == (status, content.lower())


def test_a_handler_that_raises_closes_with_1011(server: Server, socket: WebSocket) -> None:
    socket.open("/raises/after")
    assert [socket.frame(), socket.frame()] == [text("open"), closing(1011)]
    server.wait_line("GET /raises/after: the handler of a WebSocket raised")
    server.wait_line("ValueError: after it was accepted")


def test_receiving_after_the_end(server: Server, socket: WebSocket) -> None:
    socket.open("/receive")
    socket.send(frame(BINARY, b"x"))
    assert socket.frame() == text("bytes b'x'")
    socket.send(close_frame(1001, "bye"))
    wait_until(lambda: noted(server, "send") == [1001, "bye"])
    assert noted(server, "receive") == [1001, "bye", "1001: bye"]


def test_receiving_after_a_cancelled_attempt(server: Server, socket: WebSocket) -> None:
    """A message that nobody waits for any more is not the end of a later wait."""
    socket.open("/impatient")
    assert socket.frame() == text("too late")
    socket.say("nobody waits for it")
    socket.send(frame(PING, b"has it arrived?"))
    assert socket.frame() == Frame(PONG, b"has it arrived?")
    with server.connect() as client:
        assert client.get("/go-on").status == 204
    assert socket.frame() == text("nobody waits for it")
    for content in ("the next", "the last"):
        socket.say(content)
        assert socket.frame() == text(content)


@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_receive_that_is_started_eagerly_is_cancelled_alone(serving: Serving, mode: str) -> None:
    with connect(serving(APP, "--eager-tasks", mode)) as socket:
        socket.open("/eager")
        says = [("child", "goes on"), ("self", "cancelled"), ("child", "goes on")]
        for content, answer in says * 2:
            socket.say(content)
            assert socket.frame() == text(answer)


def test_closing(server: Server, socket: WebSocket) -> None:
    socket.open("/close/4321")
    assert socket.frame() == closing(4321, "because")
    wait_until(lambda: noted(server, "closed") == "4321 because")


def test_a_code_that_may_not_be_sent(socket: WebSocket) -> None:
    socket.open("/close/1006")
    assert socket.frame().content.startswith(b"a close code is 1000 to 1003")


def test_what_is_no_message(socket: WebSocket) -> None:
    socket.open("/wrong")
    for kind in ("dict", "NoneType", "int"):
        said = socket.frame().content.decode()
        assert said.startswith(f"TypeError: a message is a str or bytes, not {kind}")
    assert socket.frame().content.startswith(b"UnicodeEncodeError")
    assert [socket.frame(), socket.frame()] == [Frame(BINARY, b"a"), Frame(BINARY, b"b")]


def test_topics(server: Server) -> None:
    with connect(server) as one, connect(server) as two, connect(server) as other:
        for socket, topic in ((one, "a"), (two, "a"), (other, "b")):
            socket.open(f"/topics/{topic}")
            assert socket.frame() == text("subscribed")
        one.say("hello")
        assert [one.frame(), two.frame()] == [text("hello"), text("hello")]
        with server.connect() as client:
            assert client.get("/publish/a/thread").content == b"published"
        assert [one.frame(), two.frame()] == [text("thread"), text("thread")]
        two.say("leave")
        assert two.frame() == text("left")
        one.say("again")
        assert one.frame() == text("again")
        for socket in (two, other):
            socket.say("leave")
            assert socket.frame() == text("left")


def test_topics_of_one_websocket_have_a_limit(start: Start) -> None:
    for flags, count in (((), 256), (("--websocket-topics-max", "3"), 3)):
        server = start(APP, *flags)
        with connect(server) as socket:
            socket.open("/many-topics")
            allowed = f"subscribes to {count} topics, and websocket_topics_max allows no more"
            assert socket.frame() == text(f"{count}: this WebSocket {allowed}")
            too_long = "the name of a topic has at most 256 bytes of UTF-8, not 258"
            assert [socket.frame(), socket.frame()] == [text(too_long), text(too_long)]
            assert socket.frame() == text("the last topic")


def test_a_mounted_application_gets_its_own(socket: WebSocket) -> None:
    socket.open("/mounted/x")
    assert socket.frame() == text("/mounted /mounted/x")
    socket.say("hello")
    assert socket.frame() == text("hello")


def test_a_handler_that_never_accepts_is_cancelled_although_its_client_has_left(
    start: Start,
) -> None:
    server = start(APP, "--handler-timeout-ms", "1000")
    with connect(server) as leaving:
        leaving.send(handshake("/undecided"))
        wait_until(lambda: noted(server, "undecided") == "began")
        leaving.socket.shutdown(sockets.SHUT_WR)
        wait_until(lambda: noted(server, "undecided") == "cancelled")
        assert leaving.read_head().status == 503


@pytest.mark.parametrize("path", ["/topics/a", "/publish/a/b"])
def test_one_of_several_workers_says_once_that_topics_are_its_own(start: Start, path: str) -> None:
    server = start(APP, "--workers", "2")
    for _ in range(2):
        with connect(server) as socket:
            match path:
                case "/topics/a":
                    socket.open(path)
                    assert socket.frame() == text("subscribed")
                case _:
                    assert socket.get(path).status == 200
    server.wait_line(r"WARN .*topics belong to one worker.*Redis")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert 1 <= sum("topics belong" in line for line in server.lines) <= 2


def test_the_only_worker_says_nothing_of_topics(server: Server, socket: WebSocket) -> None:
    socket.open("/topics/a")
    assert socket.frame() == text("subscribed")
    assert not [line for line in server.lines if "topics belong" in line]
