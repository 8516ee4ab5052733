"""Flow control (RFC 9113 sections 5.2 and 6.9), and clients that use it to stall a server."""

from __future__ import annotations

import time

import pytest

from support.h2 import (
    WINDOW_BYTES,
    Code,
    Connect,
    Kind,
    Setting,
    data,
    frame,
    get,
    post,
    settings,
    window_update,
)
from support.server import Server, Start
from support.waiting import wait_until
from support.worker import resident_bytes

pytestmark = pytest.mark.slow

WRITE_TIMEOUT = ("--write-timeout-ms", "500")


def counts(server: Server) -> dict[str, int]:
    """Ask over HTTP/1.1 what the application has counted."""
    with server.connect() as other:
        found: dict[str, int] = other.get("/counts").json()
        return found


@pytest.mark.parametrize("path", ["/big/100000", "/stream/100", "/stream-later/100"])
def test_no_more_than_the_windows_allow_is_sent(
    server: Server, connect: Connect, path: str
) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 10})
    client.send(get(1, path))
    assert len(client.content(1, 10)) == 10
    for _ in range(5):
        client.send(window_update(1, 1))
        client.read_until(Kind.DATA, 1)
    assert len(client.content(1, 15)) == 15
    client.send(window_update(1, 200_000))
    assert len(client.content(1, WINDOW_BYTES)) == WINDOW_BYTES
    client.send(window_update(0, 200_000))
    assert len(client.response(1).content) == 100_000


def test_a_response_in_windows_of_one_byte_is_whole(server: Server, connect: Connect) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 0})
    client.send(post(1, "/echo"), data(1, bytes(range(256)), is_last=True))
    for _ in range(256):
        client.send(window_update(1, 1))
    assert client.response(1).content == bytes(range(256))


@pytest.mark.parametrize("path", ["/stream/65", "/stream-later/65", "/big/65000"])
def test_the_end_needs_no_window(server: Server, connect: Connect, path: str) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 65_000})
    client.send(get(1, path))
    assert client.response(1).is_complete


def test_a_window_may_become_negative(server: Server, connect: Connect) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 1000})
    client.send(get(1, "/big/3000"))
    client.ping()
    client.send(settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    client.send(window_update(1, 1000))
    client.ping()
    assert len(client.messages[1].content) == 1000
    client.send(window_update(1, 1))
    client.ping()
    assert len(client.messages[1].content) == 1001
    client.send(settings({Setting.INITIAL_WINDOW_SIZE: 1999}))
    assert len(client.response(1).content) == 3000


def test_a_stream_without_a_window_stops_no_other(server: Server, connect: Connect) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 0})
    client.send(*(get(stream, "/big/1000") for stream in range(1, 100, 2)))
    client.send(get(101, "/stream/3"), window_update(101, 3000))
    assert len(client.response(101).content) == 3000
    assert all(not client.messages[stream].content for stream in range(1, 100, 2))


@pytest.mark.parametrize("path", ["/big/1000", "/stream/1", "/stream-later/1"])
@pytest.mark.parametrize("window", [0, 100])
def test_a_stream_whose_window_stays_closed_is_reset(
    start: Start, connect: Connect, path: str, window: int
) -> None:
    server = start("h2/native.py", "--h2c", *WRITE_TIMEOUT)
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: window})
    before = time.monotonic()
    client.send(get(1, path))
    message = client.response(1)
    assert message.reset == Code.CANCEL
    assert len(message.content) == window
    assert 0.5 <= time.monotonic() - before < 5
    # The connection, whose time ran for this stream only, is open.
    assert client.request(3, "/stream/0").is_complete


def test_single_bytes_of_window_do_not_hold_a_stream_for_ever(
    start: Start, connect: Connect
) -> None:
    server = start("h2/native.py", "--h2c", *WRITE_TIMEOUT)
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 0})
    client.send(get(1, "/big/100000"))
    client.socket.settimeout(0.05)
    end = time.monotonic() + 10
    while client.messages.get(1) is None or client.messages[1].reset is None:
        assert time.monotonic() < end, "it is held for as long as the client wants"
        client.send(window_update(1, 1))
        try:
            client.read_until(Kind.RST_STREAM, 1)
        except TimeoutError:
            continue
    assert client.messages[1].reset == Code.CANCEL


def test_a_connection_window_that_stays_closed_ends_its_streams(
    start: Start, connect: Connect
) -> None:
    server = start("h2/native.py", "--h2c", *WRITE_TIMEOUT)
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 1_000_000})
    client.send(get(1, "/big/100000"), get(3, "/stream/100"), get(5, "/stream-later/100"))
    for stream in (1, 3, 5):
        assert client.response(stream).reset == Code.CANCEL
    received = sum(len(message.content) for message in client.messages.values())
    assert received == WINDOW_BYTES


def test_responses_that_wait_for_windows_hold_little(server: Server, connect: Connect) -> None:
    before = resident_bytes(server)
    clients = [connect(server, {Setting.INITIAL_WINDOW_SIZE: 0}) for _ in range(20)]
    for client in clients:
        client.send(*(get(stream, "/stream/100000") for stream in range(1, 200, 2)))
        client.ping()
    assert resident_bytes(server) - before < 32 << 20


ERRORS = {
    "connection, increment of 0": (window_update(0, 0), Code.PROTOCOL_ERROR),
    "connection, overflow": (window_update(0, 0x7FFFFFFF), Code.FLOW_CONTROL_ERROR),
    "settings, too large": (
        settings({Setting.INITIAL_WINDOW_SIZE: 0x80000000}),
        Code.FLOW_CONTROL_ERROR,
    ),
    "settings, overflow": (
        window_update(1, 0x7FFFFFFF - WINDOW_BYTES)
        + settings({Setting.INITIAL_WINDOW_SIZE: 65_536}),
        Code.FLOW_CONTROL_ERROR,
    ),
    "idle stream": (window_update(9, 1), Code.PROTOCOL_ERROR),
    "wrong length": (frame(Kind.WINDOW_UPDATE, 0, bytes(3)), Code.FRAME_SIZE_ERROR),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_that_end_the_connection(server: Server, connect: Connect, kind: str) -> None:
    sent, code = ERRORS[kind]
    client = connect(server)
    client.send(get(1, "/work"))
    client.ping()
    client.send(sent)
    goaway = client.end()
    assert goaway is not None
    assert goaway.code == code
    wait_until(lambda: counts(server) == {"started": 1, "disconnected": 1})


STREAM_ERRORS = {
    "increment of 0": (window_update(1, 0), Code.PROTOCOL_ERROR),
    "overflow": (window_update(1, 0x7FFFFFFF), Code.FLOW_CONTROL_ERROR),
}


@pytest.mark.parametrize("kind", STREAM_ERRORS)
def test_errors_that_end_a_stream(server: Server, connect: Connect, kind: str) -> None:
    sent, code = STREAM_ERRORS[kind]
    client = connect(server)
    client.send(get(1, "/work"), sent)
    assert client.response(1).reset == code
    assert client.request(3, "/").content == b"hello"
    wait_until(lambda: counts(server) == {"started": 1, "disconnected": 1})


def test_an_application_that_does_not_read_stops_its_own_stream_only(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(post(1, "/unread"))
    part = data(1, bytes(16_384))
    client.send(part * 4)
    client.ping()
    assert not [each for each in client.frames if each.kind == Kind.WINDOW_UPDATE and each.stream]
    for stream in range(3, 43, 2):
        client.send(post(stream, "/echo"), data(stream, b"e" * 16_384) * 3, data(stream, b"", True))
        client.send(window_update(0, 3 * 16_384), window_update(stream, 3 * 16_384))
        assert client.response(stream).content == b"e" * 3 * 16_384
    with server.connect() as other:
        other.get("/release")
    client.read_until(Kind.WINDOW_UPDATE, 1)
    client.send(data(1, b"last", is_last=True))
    assert client.response(1).content == b"%d" % (4 * 16_384 + 4)


def test_content_beyond_a_window_is_an_error_of_its_stream(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(post(1, "/unread"), data(1, bytes(16_384)) * 4, data(1, b"x"))
    assert client.response(1).reset == Code.FLOW_CONTROL_ERROR
    assert client.request(3, "/").content == b"hello"


def test_padding_counts_and_is_given_back(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(post(1, "/parts"))
    padded = frame(Kind.DATA, 1, b"\xff" + b"x" + bytes(255), 0x8)
    for _ in range(100):
        client.send(padded * 10)
        client.ping()
    client.send(data(1, b"", is_last=True))
    assert client.response(1).content == b"1000"


def test_long_uploads_share_the_connection(server: Server, connect: Connect) -> None:
    client = connect(server)
    streams = range(1, 20, 2)
    client.send(*(post(stream, "/parts") for stream in streams))
    left = dict.fromkeys(streams, 400_000)
    windows = dict.fromkeys(streams, WINDOW_BYTES)
    windows[0] = WINDOW_BYTES
    while any(left.values()):
        for stream in streams:
            size = min(left[stream], windows[stream], windows[0], 16_384)
            if size:
                client.send(data(stream, bytes(size), is_last=size == left[stream]))
                for each in (stream, 0):
                    windows[each] -= size
                left[stream] -= size
        client.ping()
        for each in client.frames:
            if each.kind == Kind.WINDOW_UPDATE:
                windows[each.stream] += int.from_bytes(each.payload, "big")
        client.frames.clear()
    for stream in streams:
        assert client.response(stream).content == b"400000"


def test_slow_uploads_do_not_stop_another_one(server: Server, connect: Connect) -> None:
    client = connect(server)
    length = (b"content-length", b"1000000")
    for stream in range(1, 35, 2):
        client.send(window_update(0, WINDOW_BYTES), post(stream, "/echo", length))
        client.send(data(stream, bytes(16_000)) * 4)
    client.ping()
    client.send(post(35, "/echo", (b"content-length", b"200000")))
    left, window = 200_000, WINDOW_BYTES
    while left:
        size = min(left, window, 16_000)
        if size == 0:
            increment = client.read_until(Kind.WINDOW_UPDATE, 35).payload
            window += int.from_bytes(increment, "big")
            continue
        client.send(data(35, bytes(size), is_last=size == left))
        left, window = left - size, window - size
    client.send(window_update(0, 200_000), window_update(35, 200_000))
    assert len(client.response(35).content) == 200_000
