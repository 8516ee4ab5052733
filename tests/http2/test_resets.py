"""Streams that end early: the client resets them (CVE-2023-44487), or makes the server do so."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.h2 import (
    Client,
    Code,
    Connect,
    data,
    frame,
    get,
    headers,
    post,
    reset,
    window_update,
)
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

STREAMS = range(1, 200_001, 2)
RESETS_MAX = 200
STREAMS_MAX = 100


def flood(client: Client, parts: Callable[[int], bytes], streams: range = STREAMS) -> int:
    """Send a part of each stream until the server ends the connection; return how many went out."""
    for count, at in enumerate(range(0, len(streams), 50)):
        try:
            client.send(b"".join(parts(stream) for stream in streams[at : at + 50]))
        except OSError:
            return count * 50
    return len(streams)


def counts(server: Server) -> dict[str, int]:
    """Ask over HTTP/1.1 what the application has counted."""
    with server.connect() as other:
        found: dict[str, int] = other.get("/counts").json()
        return found


@pytest.mark.parametrize("path", ["/run", "/work"])
def test_rapid_reset_ends_the_connection_and_few_handlers_run(
    server: Server, connect: Connect, path: str
) -> None:
    with server.connect() as other:
        attacker = connect(server)
        flood(attacker, lambda stream: get(stream, path) + reset(stream))
        before = time.monotonic()
        assert other.get("/").content == b"hello"
        assert time.monotonic() - before < 2
    goaway = attacker.end()
    assert goaway is None or goaway.code == Code.ENHANCE_YOUR_CALM
    assert counts(server).get("run", 0) <= RESETS_MAX + 1
    wait_until(lambda: (found := counts(server)).get("disconnected") == found.get("started"))
    assert counts(server).get("started", 0) <= RESETS_MAX + 1


def test_the_reason_arrives_if_the_client_reads(server: Server, connect: Connect) -> None:
    client = connect(server)
    client.send(*(get(stream, "/work") + reset(stream) for stream in range(1, 403, 2)))
    goaway = client.end()
    assert goaway is not None
    assert goaway.code == Code.ENHANCE_YOUR_CALM
    assert goaway.last_stream == 401
    assert goaway.payload[8:] == b"too many streams end before their responses"
    wait_until(lambda: counts(server) == {"started": 201, "disconnected": 201})


def test_as_many_resets_as_are_allowed_leave_the_connection_open(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(*(get(stream, "/work") + reset(stream) for stream in range(1, 400, 2)))
    assert client.request(401, "/").content == b"hello"
    wait_until(lambda: counts(server) == {"started": 200, "disconnected": 200})


def test_a_client_most_of_whose_requests_complete_may_cancel_the_others(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    for stream in range(1, 3001, 6):
        client.send(get(stream, "/") + get(stream + 2, "/work") + reset(stream + 2))
        assert client.request(stream + 4, "/").content == b"hello"


def test_a_cancelled_handler_is_cancelled_once_and_others_go_on(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(*(get(stream, "/work") for stream in (1, 3, 5)), reset(3), reset(3))
    wait_until(lambda: counts(server) == {"started": 3, "disconnected": 1})
    with server.connect() as other:
        other.get("/release")
    assert client.response(1).content == client.response(5).content == b"done"
    assert counts(server) == {"started": 3, "disconnected": 1, "finished": 2}
    assert not client.messages.get(3)


PROVOCATIONS: dict[str, Callable[[int], bytes]] = {
    "window overflow": lambda stream: get(stream, "/work") + window_update(stream, 0x7FFFFFFF),
    "increment of 0": lambda stream: get(stream, "/work") + window_update(stream, 0),
    "DATA after the end": lambda stream: get(stream, "/work") + data(stream, b"late"),
    "HEADERS after the end": lambda stream: get(stream, "/work") + headers(stream, []),
    "wrong PRIORITY": lambda stream: get(stream, "/work") + frame(2, stream, b"1234"),
    "own parent": lambda stream: (
        get(stream, "/work") + frame(2, stream, stream.to_bytes(4, "big") + b"\0")
    ),
    "content too long": lambda stream: (
        post(stream, "/unread", (b"content-length", b"2")) + data(stream, b"long")
    ),
    "malformed": lambda stream: headers(stream, [(b":path", b"/")]),
}


@pytest.mark.parametrize("kind", PROVOCATIONS)
def test_resets_that_the_client_provokes_are_counted(
    server: Server, connect: Connect, kind: str
) -> None:
    attacker = connect(server)
    flood(attacker, PROVOCATIONS[kind])
    goaway = attacker.end()
    assert goaway is None or goaway.code == Code.ENHANCE_YOUR_CALM
    assert counts(server).get("started", 0) <= RESETS_MAX + 1
    wait_until(
        lambda: (
            (found := counts(server)).get("started") == found.get("disconnected")
            or kind == "content too long"
        )
    )


def test_refused_streams_are_counted(server: Server, connect: Connect) -> None:
    attacker = connect(server)
    flood(attacker, lambda stream: get(stream, "/work"))
    goaway = attacker.end()
    assert goaway is None or goaway.code == Code.ENHANCE_YOUR_CALM
    assert counts(server)["started"] == STREAMS_MAX
    wait_until(lambda: counts(server).get("disconnected") == STREAMS_MAX)


def test_one_stream_too_many_is_refused_and_may_be_repeated(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    client.send(*(get(stream, "/work") for stream in range(1, 202, 2)))
    assert client.response(201).reset == Code.REFUSED_STREAM
    client.send(reset(1))
    assert client.request(203, "/").content == b"hello"
    with server.connect() as other:
        other.get("/release")
    for stream in range(3, 200, 2):
        assert client.response(stream).content == b"done"


def test_threads_that_cannot_be_cancelled_are_not_multiplied(
    start: Start, connect: Connect
) -> None:
    server = start("h2/wsgi.py", "--h2c", "--threads", "2")
    with server.connect() as other:
        attacker = connect(server)
        flood(attacker, lambda stream: get(stream, "/sleep/20") + reset(stream))
        assert other.get("/").content == b"hello"
        assert int(other.get("/count").content) <= RESETS_MAX + 1


@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_handlers_that_outlive_their_streams_are_limited(
    start: Start, connect: Connect, interface: str
) -> None:
    limits = ("--h2-streams-max", "2", "--h2-resets-max", "2", "--threads", "8")
    server = start(f"h2/{interface}.py", "--h2c", *limits)
    client = connect(server)
    streams = iter(range(1, 100, 2))
    for count in range(1, 5):
        held = next(streams)
        client.send(get(held, "/hold"))
        wait_until(lambda wanted=count: counts(server) == {"started": wanted})
        client.send(reset(held))
        # Most requests complete, so the resets themselves are not too many.
        for _ in range(4 if count < 4 else 0):
            assert client.request(next(streams), "/").content == b"hello"
    for stream in (next(streams), next(streams)):
        client.send(get(stream, "/hold"))
        assert client.response(stream).reset == Code.REFUSED_STREAM
    assert counts(server) == {"started": 4}
    with server.connect() as other:
        other.get("/release")
    wait_until(lambda: counts(server) == {"started": 4, "finished": 4})
    assert client.request(next(streams), "/").content == b"hello"
