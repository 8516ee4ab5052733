"""The end of a server: GOAWAY in two steps (RFC 9113 section 6.8), and no request is lost."""

from __future__ import annotations

import signal

import pytest

from support.h2 import ACK, Code, Connect, Frame, Kind, data, frame, get, post
from support.server import Server, Start

pytestmark = pytest.mark.slow

STREAM_MAX = 0x7FFFFFFF


def goaways(frames: list[Frame]) -> list[tuple[int, Code]]:
    """Return the last streams that were named, and why."""
    return [(each.last_stream, each.code) for each in frames if each.kind == Kind.GOAWAY]


def test_what_the_client_sends_before_it_knows_is_served(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(get(1, "/slow/500"))
    client.ping()
    server.signal(signal.SIGTERM)
    announced = client.read_until(Kind.GOAWAY)
    assert (announced.last_stream, announced.code) == (STREAM_MAX, Code.NO_ERROR)
    question = client.read_until(Kind.PING)
    # These were on their way.
    client.send(get(3, "/slow/500"), get(5, "/"))
    client.send(frame(Kind.PING, 0, question.payload, ACK))
    final = client.read_until(Kind.GOAWAY)
    assert (final.last_stream, final.code) == (5, Code.NO_ERROR)
    client.send(get(7, "/"))
    assert client.response(7).reset == Code.REFUSED_STREAM
    assert client.response(1).content == client.response(3).content == b"slept"
    assert client.response(5).content == b"hello"
    client.end()
    assert len(goaways(client.frames)) == 2
    assert server.wait() == 0


def test_a_client_that_does_not_respond_delays_it_by_half_a_second(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    assert client.request(1, "/").content == b"hello"
    server.signal(signal.SIGTERM)
    client.end()
    assert goaways(client.frames) == [(STREAM_MAX, Code.NO_ERROR), (1, Code.NO_ERROR)]
    assert server.wait() == 0


def test_uploads_and_downloads_are_finished(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(post(1, "/echo"), data(1, b"half"), get(3, "/slow/300"))
    client.ping()
    server.signal(signal.SIGTERM)
    client.read_until(Kind.GOAWAY)
    client.send(data(1, b"half", is_last=True))
    assert client.response(1).content == b"halfhalf"
    assert client.response(3).content == b"slept"
    client.end()
    assert server.wait() == 0


def test_what_has_not_finished_in_time_gets_503(start: Start, connect: Connect) -> None:
    server = start("h2/native.py", "--h2c", "--graceful-timeout-ms", "300")
    client = connect(server)
    client.send(get(1, "/work"), get(3, "/work"))
    client.ping()
    server.signal(signal.SIGTERM)
    assert client.response(1).status == client.response(3).status == 503
    server.wait()


def test_a_client_that_leaves_gets_its_responses(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(get(1, "/slow/200"), frame(Kind.GOAWAY, 0, bytes(8)))
    assert client.response(1).content == b"slept"
    goaway = client.end()
    assert goaway is not None
    assert (goaway.last_stream, goaway.code) == (1, Code.NO_ERROR)
