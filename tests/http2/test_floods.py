"""Work without progress: header blocks without an end, compression bombs, idle frames."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

import pytest

from support.h2 import (
    END_HEADERS,
    END_STREAM,
    PADDED,
    Client,
    Code,
    Connect,
    Kind,
    Setting,
    block,
    data,
    frame,
    get,
    post,
    request_fields,
    settings,
    window_update,
)
from support.server import Server, Start
from support.worker import resident_bytes

pytestmark = pytest.mark.slow

IDLE_FRAMES_MAX = 10_000
MIB = 1 << 20


def flood(client: Client, part: bytes, count: int) -> None:
    """Send a part many times, as far as the server takes it."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        client.send(part * count)


def expect_calm(client: Client) -> None:
    """Read to the end of the connection, which must have that reason."""
    goaway = client.end()
    assert goaway is not None
    assert goaway.code == Code.ENHANCE_YOUR_CALM


def expect_others_served(server: Server) -> None:
    """Another client gets its response at once."""
    before = time.monotonic()
    with server.connect() as other:
        assert other.get("/").content == b"hello"
    assert time.monotonic() - before < 2


@pytest.mark.parametrize("fragment", [b"", b"x", b"\x00\x01a" + b"\x7f\x81\x7e" + b"v" * 16_000])
def test_a_header_block_without_an_end_is_limited(
    server: Server, connect: Connect, fragment: bytes
) -> None:
    before = resident_bytes(server)
    attacker = connect(server)
    start = block(request_fields("GET", "/run"))
    attacker.send(frame(Kind.HEADERS, 1, start, END_STREAM))
    flood(attacker, frame(Kind.CONTINUATION, 1, fragment), 1_000_000 // (9 + len(fragment)))
    expect_calm(attacker)
    expect_others_served(server)
    assert resident_bytes(server) - before < 8 * MIB


def test_a_header_block_in_many_fragments_within_the_limit_is_served(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    whole = block(request_fields("GET", "/"))
    client.send(
        frame(Kind.HEADERS, 1, whole[:1], END_STREAM),
        *(frame(Kind.CONTINUATION, 1, whole[at : at + 1]) for at in range(1, len(whole))),
        frame(Kind.CONTINUATION, 1, b"", END_HEADERS),
    )
    assert client.response(1).content == b"hello"


def bomb(field: bytes, references: int) -> bytes:
    """Return a block: a field that enters the table, and many references to it."""
    start = block(request_fields("GET", "/run"))
    return start + b"\x40" + field + b"\xbe" * references


BOMBS = {
    "4 KB by one byte": bomb(b"\x01x\x7f\x81\x1e" + b"v" * 4000, 12_000),
    "cookie crumbs": bomb(b"\x06cookie\x01a", 12_000),
    "empty values": bomb(b"\x01x\x00", 12_000),
    "static": block(request_fields("GET", "/run")) + b"\x90" * 12_000,
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_compression_bomb_is_refused_and_holds_no_memory(
    server: Server, connect: Connect, kind: str
) -> None:
    before = resident_bytes(server)
    client = connect(server, {Setting.INITIAL_WINDOW_SIZE: 0})
    last = END_HEADERS | END_STREAM
    client.send(*(frame(Kind.HEADERS, stream, BOMBS[kind], last) for stream in range(1, 100, 2)))
    client.ping()
    statuses = {stream: client.messages[stream].status for stream in range(1, 100, 2)}
    assert set(statuses.values()) == {431}
    with server.connect() as other:
        assert "run" not in other.get("/counts").json()
    assert resident_bytes(server) - before < 8 * MIB
    # The tables of both sides are still the same.
    client.send(settings({Setting.INITIAL_WINDOW_SIZE: 1000}))
    assert client.request(101, "/").content == b"hello"


def test_many_crumbs_within_the_limits_are_one_cookie(server: Server, connect: Connect) -> None:
    client = connect(server)
    crumbs = [(b"cookie", b"a%d=b" % number) for number in range(60)]
    found = client.request(1, "/fields", *crumbs)
    fields = dict(json.loads(found.content)["fields"])
    assert fields["cookie"] == "; ".join(f"a{number}=b" for number in range(60))


IDLE: dict[str, bytes] = {
    "PING": frame(Kind.PING, 0, b"12345678"),
    "PING acknowledgements": frame(Kind.PING, 0, b"12345678", 1),
    "SETTINGS": settings({Setting.INITIAL_WINDOW_SIZE: 1}),
    "empty SETTINGS": settings({}),
    "SETTINGS acknowledgements": frame(Kind.SETTINGS, 0, flags=1),
    "PRIORITY": frame(Kind.PRIORITY, 9, b"\0\0\0\1\0"),
    "WINDOW_UPDATE": window_update(0, 1),
    "unknown": frame(0x42, 0, b"x"),
    "empty DATA": data(1, b""),
    "padding": frame(Kind.DATA, 1, b"\x05" + bytes(5), PADDED),
    "GOAWAY": frame(Kind.GOAWAY, 0, bytes(8)),
}


@pytest.mark.parametrize("kind", IDLE)
def test_frames_without_progress_are_limited(server: Server, connect: Connect, kind: str) -> None:
    attacker = connect(server)
    attacker.send(post(1, "/unread"))
    flood(attacker, IDLE[kind], 2 * IDLE_FRAMES_MAX)
    expect_calm(attacker)
    expect_others_served(server)


@pytest.mark.parametrize("kind", ["PING", "SETTINGS"])
def test_acknowledgements_that_are_not_read_take_little_memory(
    server: Server, connect: Connect, kind: str
) -> None:
    before = resident_bytes(server)
    attackers = [connect(server) for _ in range(20)]
    for attacker in attackers:
        flood(attacker, IDLE[kind], IDLE_FRAMES_MAX - 10)
    expect_others_served(server)
    assert resident_bytes(server) - before < 8 * MIB


def test_content_in_single_bytes_delays_no_other_client(server: Server, connect: Connect) -> None:
    attacker = connect(server)
    attacker.send(post(1, "/parts"))
    attacker.socket.setblocking(False)
    slowest_s, sent = 0.0, 0
    part = data(1, b"x") * 1000
    with server.connect() as other:
        end = time.monotonic() + 3
        while time.monotonic() < end and sent < 60_000:
            try:
                sent += attacker.socket.send(part) // 10
            except BlockingIOError:
                pass
            except OSError:
                break
            before = time.monotonic()
            assert other.get("/").content == b"hello"
            slowest_s = max(slowest_s, time.monotonic() - before)
    assert sent > 0
    assert slowest_s < 1


def test_a_client_that_pings_between_requests_stays_connected(
    server: Server, connect: Connect
) -> None:
    client = connect(server)
    for stream in range(1, 8001, 2):
        client.send(IDLE["PING"] * 4, get(stream, "/"))
        if stream % 100 == 1:
            assert client.response(stream).content == b"hello"
    assert client.response(7999).content == b"hello"


STALLS: dict[str, Callable[[Client], None]] = {
    "frame": lambda client: client.send(get(1, "/")[:-1]),
    "block": lambda client: client.send(
        frame(Kind.HEADERS, 1, block(request_fields("GET", "/")), END_STREAM)
    ),
}


@pytest.mark.parametrize("kind", ["frame", "block"])
def test_a_frame_or_block_without_an_end_has_a_deadline(
    start: Start, connect: Connect, kind: str
) -> None:
    server = start("h2/native.py", "--h2c", "--header-timeout-ms", "300")
    client = connect(server)
    client.ping()
    STALLS[kind](client)
    goaway = client.end()
    assert goaway is not None
    assert goaway.code == Code.NO_ERROR
    assert goaway.payload[8:] == b"a frame took too long"
