"""WebSockets (points 34 to 42), byte by byte.

What an application can observe is the same over TLS and on a stream of HTTP/2.
"""

from __future__ import annotations

import json
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asgi.held import Seen, wait_held
from support.client import Connection
from support.loops import Serving
from support.server import Server, Start
from support.waiting import wait_until
from support.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
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
from support.websocket_carriers import CARRIERS, SECURE, connect_by, secured

pytestmark = pytest.mark.slow

APP = "asgi/sockets.py"
PLAIN = CARRIERS[0]

by_every_carrier = pytest.mark.parametrize("carrier", CARRIERS)


@pytest.fixture
def carrier() -> str:
    """Name what carries WebSockets, if the test does not."""
    return PLAIN


@pytest.fixture
def server(carrier: str, serving: Serving) -> Server:
    """Serve the application, with TLS if the carrier needs it."""
    return serving(APP) if carrier == PLAIN else serving(APP, *SECURE)


@pytest.fixture
def socket(server: Server, carrier: str) -> Iterator[WebSocket]:
    """Connect to it."""
    with connect_by(carrier, server) as socket:
        yield socket


def client(server: Server, carrier: str) -> Connection:
    """Connect for a request."""
    connection = server.connect()
    if carrier != PLAIN:
        secured(connection)
    return connection


@pytest.fixture
def seen(server: Server, carrier: str) -> Seen:
    """Return a function that asks what the application has noted under a name."""

    def seen(name: str) -> Any:
        with client(server, carrier) as asking:
            return asking.get("/seen").json().get(name, 0)

    return seen


Release = Callable[[], None]


@pytest.fixture
def release(server: Server, carrier: str) -> Release:
    """Return a function that lets the application go on."""

    def release() -> None:
        with client(server, carrier) as asking:
            assert asking.get("/release").content == b"released"

    return release


def as_path(value: Any) -> str:
    """Write a value so that it fits into a path."""
    return json.dumps(value).encode().hex()


def test_34_a_scope_says_what_was_asked_for(socket: WebSocket) -> None:
    socket.open("/scoped/a%20b?x=%20", "Sec-WebSocket-Protocol: one, two", "X-Own: 1", "X-own: 2")
    scope = json.loads(socket.frame().content)
    assert scope["type"] == "websocket"
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.4"}
    assert (scope["http_version"], scope["scheme"]) == ("1.1", "ws")
    assert (scope["path"], scope["raw_path"]) == ("/scoped/a b", "b'/scoped/a%20b'")
    assert (scope["query_string"], scope["root_path"]) == ("b'x=%20'", "")
    assert scope["subprotocols"] == ["one", "two"]
    assert [pair for pair in scope["headers"] if pair[0] == "x-own"] == [
        ["x-own", "1"],
        ["x-own", "2"],
    ]
    assert ["host", "test"] in scope["headers"]
    assert scope["client"][0] == "127.0.0.1" and scope["server"][0] == "127.0.0.1"
    assert scope["extensions"] == {"websocket.http.response": {}}
    assert "method" not in scope and scope["state"] == {}


def test_34_the_handshake_waits_for_the_application(
    release: Release, socket: WebSocket, seen: Seen
) -> None:
    before = seen("held")
    socket.ask("/before/hold")
    wait_held(seen, before)
    assert not select.select([socket.socket], [], [], 0.05)[0]
    release()
    socket.read_opening()
    socket.say("held")
    assert socket.frame() == text("held")


@by_every_carrier
@pytest.mark.parametrize(
    ("path", "status"),
    [("close", 403), ("errors", 403), ("raise", 500), ("return", 403), ("send", 403)],
)
def test_35_an_application_that_does_not_accept(
    socket: WebSocket, seen: Seen, path: str, status: int
) -> None:
    socket.ask(f"/before/{path}")
    reply = socket.read()
    assert (reply.status, reply.content) == (status, b"")
    if path == "close":
        after = {"type": "websocket.disconnect", "code": 1006, "reason": ""}
        wait_until(lambda: seen("after refusal") == after)
    if path == "send":
        assert "not accepted" in seen("too early")


@by_every_carrier
@pytest.mark.parametrize("path", ["whole", "parts"])
def test_35_a_denial_has_status_fields_and_content(socket: WebSocket, path: str) -> None:
    socket.ask(f"/denial/{path}")
    reply = socket.read()
    assert (reply.status, reply.content) == (401, b"not you")
    assert reply.get("x-reason") == "testing"
    assert reply.get("upgrade") is None


def test_35_the_content_of_a_whole_denial_has_a_length(socket: WebSocket) -> None:
    socket.ask("/denial/whole")
    reply = socket.read()
    assert (reply.get("content-length"), reply.get("transfer-encoding")) == ("7", None)


def test_35_a_denial_that_fails(socket: WebSocket) -> None:
    socket.ask("/denial/raise")
    assert socket.read().status == 500


def test_35_a_denial_cannot_become_an_acceptance(socket: WebSocket) -> None:
    socket.ask("/denial/accept")
    reply = socket.read()
    assert reply.status == 401
    assert b"has its response already" in reply.content


@by_every_carrier
@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (close_frame(1000), 1000, ""),
        (close_frame(3999, "caf\u00e9"), 3999, "caf\u00e9"),
        (close_frame(None), 1005, ""),
    ],
)
def test_36_a_disconnection_has_code_and_reason(
    socket: WebSocket, seen: Seen, sent: bytes, code: int, reason: str
) -> None:
    before = seen("ends")
    socket.open("/echo")
    socket.send(sent)
    returned = socket.frame()
    assert (returned.opcode, returned.content[2:].decode()) == (CLOSE, reason)
    assert socket.is_closed()
    wait_until(lambda: seen("ends") == before + 1)
    assert seen("end") == ["websocket.disconnect", code, reason]


@by_every_carrier
def test_36_a_connection_that_ends_without_a_close_frame(
    server: Server, carrier: str, seen: Seen
) -> None:
    before = seen("ends")
    with connect_by(carrier, server) as socket:
        socket.open("/echo")
    wait_until(lambda: seen("ends") == before + 1)
    assert seen("end") == ["websocket.disconnect", 1006, ""]


@by_every_carrier
def test_36_messages_before_the_end_are_received_first(
    release: Release, socket: WebSocket, seen: Seen
) -> None:
    before = seen("held")
    socket.open("/collect")
    wait_held(seen, before)
    socket.send(frame(TEXT, "a") + frame(TEXT, "b") + close_frame(1001))
    assert socket.frame() == closing(1001)
    release()
    wait_until(lambda: seen("collected") == ["a", "b", 1001])


@by_every_carrier
def test_36_a_client_that_leaves_during_the_handshake(
    server: Server, carrier: str, seen: Seen
) -> None:
    before = seen("waits")
    with connect_by(carrier, server) as socket:
        socket.ask("/before/wait")
        wait_until(lambda: seen("waits") == before + 1)
    wait_until(lambda: seen("gone") == ["websocket.disconnect", 1006])


@by_every_carrier
def test_37_either_text_or_bytes(socket: WebSocket, seen: Seen) -> None:
    socket.open("/sends")
    expected = [
        text("a"),
        Frame(BINARY, b"b"),
        Frame(BINARY, b"c"),
        Frame(BINARY, b"d"),
        text(""),
        text("\u00e9\u20ac\U0001f600"),
        text("end"),
        closing(1000),
    ]
    assert [socket.frame() for _ in expected] == expected
    assert seen("errors") == [
        *["ValueError"] * 3,
        *["TypeError"] * 2,
        "UnicodeEncodeError",
        "RuntimeError",
        "RuntimeError",
        "TypeError",
        "TypeError",
    ]


@by_every_carrier
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"subprotocol": "two"}, "two"),
        ({"subprotocol": "three"}, None),
        ({"headers": [["x-own", "1"]]}, None),
        ({"headers": [["Sec-WebSocket-Protocol", "two"]]}, "two"),
        ({"headers": [["sec-websocket-protocol", "three"]]}, None),
        (
            {"subprotocol": "one", "headers": [["sec-websocket-protocol", "two"]]},
            "send(): a WebSocket has one subprotocol",
        ),
        ({"headers": [["sec-websocket-extensions", "x"]]}, "send(): the server sets"),
        ({"headers": [["x own", "1"]]}, "send(): malformed header"),
    ],
)
def test_38_subprotocol_and_headers_of_an_acceptance(
    socket: WebSocket, asked: dict[str, Any], expected: str | None
) -> None:
    fields = ("Sec-WebSocket-Protocol: one", "Sec-WebSocket-Protocol: two,x")
    reply = socket.open(f"/accept/{as_path(asked)}", *fields)
    said = socket.frame().content.decode()
    if expected is None or expected == "two":
        assert said == "accepted"
        assert reply.get("sec-websocket-protocol") == expected
        assert reply.get("x-own") == dict(asked.get("headers", ())).get("x-own")
    else:
        assert said.startswith(expected)
        assert reply.get("sec-websocket-protocol") is None


def test_a_subprotocol_that_is_not_offered_is_left_out_and_reported_once(start: Start) -> None:
    server = start(APP)
    accepting = f"/accept/{as_path({'subprotocol': 'three'})}"
    for fields in ((), ("Sec-WebSocket-Protocol: one",)):
        with connect(server) as socket:
            reply = socket.open(accepting, *fields)
            assert reply.get("sec-websocket-protocol") is None
            assert socket.frame() == text("accepted")
    server.wait_line(
        r"WARN  bolide\.error: the application accepts a WebSocket with the subprotocol 'three', "
        r"which its client does not offer: it is accepted without one "
        r"\(RFC 6455 section 4\.2\.2; reported once\)$"
    )
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert sum("subprotocol 'three'" in line for line in server.lines) == 1


def test_39_pings_and_fragments_are_the_servers(socket: WebSocket) -> None:
    socket.open("/echo")
    parts = "\u20ac".encode()
    socket.send(
        frame(TEXT, parts[:1], is_last=False)
        + frame(PING, b"now")
        + frame(CONTINUATION, parts[1:], is_last=False)
        + frame(CONTINUATION, b"!")
        + frame(PONG, b"unasked")
        + frame(BINARY, b"\xff")
    )
    frames = [socket.frame() for _ in range(3)]
    frames.remove(Frame(PONG, b"now"))
    assert frames == [text("\u20ac!"), Frame(BINARY, b"\xff")]


@by_every_carrier
def test_39_text_that_is_not_utf_8_is_refused(socket: WebSocket, seen: Seen) -> None:
    before = seen("ends")
    socket.open("/echo")
    socket.send(frame(TEXT, b"\xff"))
    closed = socket.frame()
    assert (closed.opcode, closed.content[:2]) == (CLOSE, b"\x03\xef")  # 1007
    wait_until(lambda: seen("ends") == before + 1)


@by_every_carrier
@pytest.mark.parametrize("reads", [True, False])
def test_40_sending_waits_for_a_client_that_does_not_read(
    server: Server, carrier: str, seen: Seen, reads: bool
) -> None:
    with connect_by(carrier, server, receive_buffer_bytes=65_536) as socket:
        before = seen("stuck")
        socket.open("/flood")
        wait_until(lambda: seen("stuck") == before + 1)
        sent = seen("sent")
        assert 0 < sent < 250
        if reads:
            for _ in range(sent + 1):
                assert len(socket.frame().content) == 65_536
            assert socket.frame() == closing(1000)
            wait_until(lambda: seen("went on") == sent + 1)
    if not reads:
        wait_until(lambda: seen("went on") == "ClientDisconnected")


def test_40_a_client_waits_for_an_application_that_does_not_receive(
    release: Release, socket: WebSocket, seen: Seen
) -> None:
    before = seen("held")
    socket.open("/slow")
    wait_held(seen, before)
    message = frame(BINARY, b"x" * 65_536)
    sent = rest = 0
    socket.socket.setblocking(False)
    while select.select([], [socket.socket], [], 0.5)[1]:
        sent += socket.socket.send(message[rest:] + message)
        rest = sent % len(message)
        assert sent < 50_000_000, "the server keeps all of it"
    release()
    socket.socket.settimeout(10)
    socket.send(message[rest:] + frame(TEXT))
    count = sent // len(message) + 1
    assert socket.frame() == text(f"{count} {count * 65_536}")


@by_every_carrier
def test_41_a_shutdown_closes_with_1012(start: Start, loop: str, carrier: str) -> None:
    server = start(APP, "--loop", loop, *(() if carrier == PLAIN else SECURE))
    with connect_by(carrier, server) as socket:
        socket.open("/echo")
        server.signal(signal.SIGTERM)
        closed = socket.frame()
        assert (closed.opcode, closed.content[:2]) == (CLOSE, b"\x03\xf4")
        socket.send(close_frame(1012))
        assert socket.is_closed()
    assert server.wait() == 0
    assert "Traceback" not in server.errors


def test_42_data_in_the_packet_of_the_handshake_is_not_lost(socket: WebSocket) -> None:
    socket.send(handshake("/echo") + frame(TEXT, "at once") + frame(TEXT, "and again"))
    socket.read_opening()
    assert [socket.frame(), socket.frame()] == [text("at once"), text("and again")]


@by_every_carrier
def test_42_data_before_the_acceptance_is_held(
    release: Release, socket: WebSocket, seen: Seen
) -> None:
    before = seen("held")
    socket.ask("/before/hold")
    socket.send(frame(TEXT, "early"))
    wait_held(seen, before)
    release()
    socket.read_opening()
    assert socket.frame() == text("early")


@by_every_carrier
@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        ("", 1000, ""),
        ("/1001/going", 1001, "going"),
        ("/4999/x", 4999, "x"),
        ("/1005", 4000, "ValueError"),
        ("/1006", 4000, "ValueError"),
        ("/999", 4000, "ValueError"),
        ("/5000", 4000, "ValueError"),
    ],
)
def test_closing(socket: WebSocket, seen: Seen, path: str, code: int, reason: str) -> None:
    before = seen("closed")
    socket.open(f"/close{path}")
    assert socket.frame() == closing(code, reason)
    socket.send(close_frame(code))
    assert socket.is_closed()
    wait_until(lambda: seen("closed") == before + 1)
    after = seen("after close")
    assert after[:4] == ["RuntimeError", "RuntimeError", "websocket.disconnect", code]


@pytest.mark.parametrize(("returned", "code"), [(4001, 4001), (None, 1005)])
def test_after_its_own_close_an_application_gets_the_clients_code(
    socket: WebSocket, seen: Seen, returned: int | None, code: int
) -> None:
    before = seen("closed")
    socket.open("/close/4123/x")
    assert socket.frame() == closing(4123, "x")
    socket.send(close_frame(returned))
    wait_until(lambda: seen("closed") == before + 1)
    assert seen("after close")[2:4] == ["websocket.disconnect", code]


@by_every_carrier
@pytest.mark.parametrize(("path", "code"), [("return", 1000), ("raise", 1011)])
def test_an_application_that_ends_closes(socket: WebSocket, path: str, code: int) -> None:
    socket.open(f"/ends/{path}")
    assert socket.frame() == text("open")
    socket.say("end")
    assert socket.frame() == closing(code)


@by_every_carrier
def test_sending_to_a_client_that_has_left(server: Server, carrier: str, seen: Seen) -> None:
    before = seen("left")
    with connect_by(carrier, server) as socket:
        socket.open("/gone")
    wait_until(lambda: seen("left") == before + 1)
    assert seen("gone") == ["websocket.disconnect", 1006]
    assert seen("sending") == "ClientDisconnected"


def test_receiving_in_tasks_loses_nothing(socket: WebSocket) -> None:
    socket.open("/tasks")
    assert socket.frame() == text("ready")
    socket.say("one")
    assert [socket.frame(), socket.frame()] == [text("one"), text("two")]
    socket.say("a")
    socket.say("b")
    assert socket.frame() == text("ab")


def test_a_task_that_receives_during_a_refusal_keeps_its_context(
    socket: WebSocket, seen: Seen
) -> None:
    socket.send(handshake("/watched"))
    assert socket.read().status == 403
    wait_until(lambda: seen("watches") == 1)
    assert seen("watched") == ["websocket.disconnect", "its own"]


def test_contexts_are_separate(server: Server) -> None:
    with connect_by(PLAIN, server) as one, connect_by(PLAIN, server) as other:
        for socket, name in ((one, "one"), (other, "other")):
            socket.open("/context")
            for number in range(3):
                socket.say(f"{name} {number}")
                before = f"{name} {number - 1}" if number else "none"
                assert socket.frame() == text(before)


def test_a_task_may_send_while_another_one_receives(socket: WebSocket) -> None:
    socket.open("/pushed")
    assert [socket.frame() for _ in range(3)] == [text(f"pushed {number}") for number in range(3)]
    socket.say("received")
    assert socket.frame() == text("received")


@pytest.mark.parametrize("carrier", CARRIERS[:2])
def test_many_messages_in_one_send(socket: WebSocket) -> None:
    socket.open("/echo")
    texts = [f"message {number}" * (number % 50) for number in range(2000)]
    socket.send(b"".join(frame(TEXT, each) for each in texts))
    for each in texts:
        assert socket.frame() == text(each)


@by_every_carrier
def test_messages_of_all_lengths(socket: WebSocket) -> None:
    socket.open("/echo")
    for length in (0, 1, 125, 126, 127, 65_535, 65_536, 200_000):
        for opcode in (TEXT, BINARY):
            socket.send(frame(opcode, b"x" * length))
            assert socket.frame() == Frame(opcode, b"x" * length)


def test_unusual_calls(socket: WebSocket, seen: Seen) -> None:
    socket.open("/calls")
    socket.send(frame(TEXT, b"one") + frame(TEXT, b"two") + frame(TEXT, b"three"))
    assert socket.frame() == text("named")
    errors = seen("calls")
    assert [error.removeprefix("SocketCall.") for error in errors.values()] == [
        "receive() takes no arguments (1 given)",
        "receive() takes no keyword arguments",
        "send() missing 1 required positional argument: 'message'",
        "send() takes a dict",
        "send() takes 1 positional arguments but 2 were given",
        "send() got an unexpected keyword argument 'a'",
        errors["send(surrogate=1)"].removeprefix("SocketCall."),
    ]
    assert seen("kept") == ["()", "(message)", True, "two", ["text", "type"]]
    assert seen("next") == {"type": "websocket.receive", "text": "three"}
