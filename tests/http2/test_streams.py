"""Responses on streams: failures that end one of them only, content of every kind, fairness."""

from __future__ import annotations

import signal
import time

import pytest

from support.h2 import (
    Code,
    Connect,
    Kind,
    Setting,
    data,
    get,
    headers,
    post,
    request_fields,
    window_update,
)
from support.server import Server, Start

pytestmark = pytest.mark.slow

SERVED = {
    "native": ("h2/native.py",),
    "asgi": ("h2/asgi.py",),
    "wsgi": ("h2/wsgi.py",),
    "wsgi, inline": ("h2/wsgi.py", "--threads", "1"),
}
FAILING = {
    "native": ["/cut", "/cut-later"],
    "asgi": ["/cut"],
    "wsgi": ["/cut"],
    "wsgi, inline": ["/cut"],
}
PARTS = {
    "native": ["/stream/", "/stream-later/"],
    "asgi": ["/parts/"],
    "wsgi": ["/parts/"],
    "wsgi, inline": ["/parts/"],
}


@pytest.mark.parametrize("interface", SERVED)
def test_a_failure_after_the_header_section_ends_its_stream_only(
    start: Start, connect: Connect, interface: str
) -> None:
    server = start(*SERVED[interface], "--h2c")
    client = connect(server)
    for round_ in range(20):
        for at, path in enumerate(FAILING[interface]):
            stream = 1 + 10 * round_ + 4 * at
            client.send(get(stream, path), get(stream + 2, "/"))
            cut, other = client.response(stream), client.response(stream + 2)
            assert (cut.status, cut.content, cut.reset) == (200, b"half", Code.INTERNAL_ERROR)
            # The tables of both sides are the same: the fields are whole.
            assert (other.status, other.content) == (200, b"hello")
            assert other.get("server") == "bolide"
    server.wait_line("ValueError: the other half")


def test_a_failure_before_the_header_section_is_a_500(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(get(1, "/raises"), get(3, "/"))
    assert client.response(1).status == 500
    assert client.response(3).content == b"hello"


@pytest.mark.parametrize("interface", SERVED)
def test_streamed_responses_are_whole_and_not_mixed(
    start: Start, connect: Connect, interface: str
) -> None:
    server = start(*SERVED[interface], "--h2c")
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 1 << 20})
    client.send(window_update(0, 1 << 24))
    expected = {}
    for stream in range(1, 41, 2):
        path = PARTS[interface][stream // 2 % len(PARTS[interface])]
        expected[stream] = 1000 * stream
        client.send(get(stream, f"{path}{stream}"))
    for stream, size in expected.items():
        message = client.response(stream)
        assert message.content == b"p" * size
        assert message.get("transfer-encoding") is None
        assert message.get("connection") is None


@pytest.mark.parametrize("interface", SERVED)
def test_uploads_arrive_whole_and_not_mixed(start: Start, connect: Connect, interface: str) -> None:
    server = start(*SERVED[interface], "--h2c")
    client = connect(server)
    contents = {stream: bytes((stream,)) * 3000 for stream in range(1, 21, 2)}
    client.send(*(post(stream, "/echo") for stream in contents))
    for at in range(0, 3000, 500):
        client.send(*(data(stream, each[at : at + 500]) for stream, each in contents.items()))
    client.send(*(data(stream, b"", is_last=True) for stream in contents))
    for stream, content in contents.items():
        assert client.response(stream).content == content


def test_a_response_to_head_has_no_content(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(headers(1, request_fields("HEAD", "/big/1000")))
    message = client.response(1)
    assert (message.status, message.get("content-length"), message.content) == (200, "1000", b"")
    client.send(headers(3, request_fields("HEAD", "/stream/5")))
    message = client.response(3)
    assert (message.status, message.content) == (200, b"")


def test_100_continue_comes_when_the_content_is_asked_for(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(post(1, "/echo", (b"expect", b"100-continue")))
    while not client.messages.get(1) or not client.messages[1].interim:
        client.read()
    client.send(data(1, b"content", is_last=True))
    message = client.response(1)
    assert (message.interim, message.content) == ([100], b"content")
    # A response without a look at the content needs none.
    client.send(post(3, "/early", (b"expect", b"100-continue")))
    message = client.response(3)
    assert (message.interim, message.content) == ([], b"early")


def test_content_that_nobody_reads_is_discarded_for_some_time(
    start: Start, connect: Connect
) -> None:
    limits = ("--linger-timeout-ms", "100", "--body-bytes-max", "1000000")
    server = start("h2/native.py", "--h2c", *limits)
    client = connect(server)
    client.send(post(1, "/early"), data(1, bytes(16_384)) * 3, data(1, b"", is_last=True))
    assert client.response(1).content == b"early"
    client.send(post(3, "/early"))
    # Most clients read the response only when they have sent everything.
    began, sent, room = time.monotonic(), 0, 65_536
    while room > 0:
        size = min(room, 16_384)
        client.send(data(3, bytes(size)))
        sent, room = sent + size, room - size
        if room == 0:
            client.ping()
            updates = [it for it in client.frames if it.kind == Kind.WINDOW_UPDATE]
            given = sum(int.from_bytes(it.payload, "big") for it in updates if it.stream == 3)
            room = 65_536 + given - sent
    assert 1.45 <= time.monotonic() - began < 10  # the server's clock ticks in milliseconds
    assert sent > 2_000_000
    assert client.response(3).content == b"early"
    while client.messages[3].reset is None:
        client.read()
    assert client.messages[3].reset == Code.NO_ERROR
    assert client.request(5, "/").content == b"hello"
    client.socket.close()
    server.signal(signal.SIGTERM)
    server.wait()
    assert "413" not in server.errors


REFUSALS = {
    "431": (get(1, "/", (b"x", b"v" * 9000)), ("--header-section-bytes-max", "8192")),
    "431, fields": (
        get(1, "/", *((b"x%d" % at, b"") for at in range(60))),
        ("--field-lines-max", "50"),
    ),
    "414": (get(1, "/" + "a" * 3000), ("--request-line-bytes-max", "2048")),
    "413, announced": (
        post(1, "/echo", (b"content-length", b"2000")),
        ("--body-bytes-max", "1000"),
    ),
    "413, at once": (
        post(1, "/echo") + data(1, bytes(2000), is_last=True),
        ("--body-bytes-max", "1000"),
    ),
    "413, in parts": (post(1, "/parts") + data(1, bytes(600)) * 2, ("--body-bytes-max", "1000")),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_limits_refuse_one_request(start: Start, connect: Connect, kind: str) -> None:
    sent, options = REFUSALS[kind]
    client = connect(start("h2/native.py", "--h2c", *options))
    client.send(sent)
    message = client.response(1)
    assert message.status == int(kind[:3])
    assert message.get("connection") is None
    assert client.request(3, "/").content == b"hello"


def test_content_that_does_not_arrive_is_a_408(start: Start, connect: Connect) -> None:
    server = start("h2/native.py", "--h2c", "--body-grace-ms", "400", "--body-pause-ms-max", "400")
    client = connect(server)
    client.send(post(1, "/echo"), data(1, b"some"))
    assert client.response(1).status == 408
    assert client.request(3, "/").content == b"hello"


def test_an_idle_connection_ends_with_goaway(start: Start, connect: Connect) -> None:
    server = start("h2/native.py", "--h2c", "--keep-alive-timeout-ms", "300")
    client = connect(server)
    assert client.request(1, "/").content == b"hello"
    goaway = client.end()
    assert goaway is not None
    assert (goaway.code, goaway.last_stream) == (Code.NO_ERROR, 1)


def test_a_long_response_delays_no_short_one(server: Server, connect: Connect) -> None:
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 1 << 30})
    client.send(window_update(0, 1 << 30))
    client.send(get(1, "/big/20000000"))
    client.send(get(3, "/big/30000"), get(5, "/stream/10"), get(7, "/stream-later/10"))
    for stream in (3, 5, 7):
        assert client.response(stream).is_complete
    assert not client.messages[1].is_complete
    assert len(client.response(1).content) == 20_000_000


def test_a_client_that_closes_its_connection_ends_all_requests(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(*(get(stream, "/work") for stream in range(1, 20, 2)))
    client.ping()
    client.socket.close()
    end = time.monotonic() + 10
    with server.connect() as other:
        while other.get("/counts").json() != {"started": 10, "disconnected": 10}:
            assert time.monotonic() < end


def test_streams_beyond_the_queue_of_threads_get_503(start: Start, connect: Connect) -> None:
    server = start("h2/wsgi.py", "--h2c", "--threads", "2", "--queue-max", "2")
    client = connect(server)
    occupied, queued, surplus = (1, 3), (5, 7), (9, 11, 13)
    for stream in occupied:
        client.send(post(stream, "/echo", (b"expect", b"100-continue")))
        client.read_until(Kind.HEADERS, stream)
        assert client.messages[stream].interim == [100]
    client.send(*(get(stream, "/") for stream in (*queued, *surplus)))
    for stream in surplus:
        assert client.response(stream).status == 503
        assert client.response(stream).get("retry-after") == "1"
    client.send(*(data(stream, b"x", is_last=True) for stream in occupied))
    for stream, content in zip((*occupied, *queued), (b"x", b"x", b"hello", b"hello"), strict=True):
        assert client.response(stream).content == content
    assert client.request(15, "/").content == b"hello"
