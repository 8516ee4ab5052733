"""WebSockets of a worker whose process may not have the memory that a message asks for."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator

import pytest

from support.memory import limit_memory
from support.server import Server, Start
from support.waiting import wait_until
from support.websocket import BINARY, WebSocket, closing, connect, text

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
LEFT_BYTES = 96 * MEBIBYTE
"""What the worker may have beside what it has when it serves."""
SHORT = closing(1013, "the server is short of memory")
LINE = "bytes of a WebSocket message, which was not received, sent or published"
MUST_FIT_ONCE = LEFT_BYTES * 4 // 5
"""The application has it; there is no memory for another."""
SIZES = range(LEFT_BYTES * 3 // 10, MUST_FIT_ONCE, 4 * MEBIBYTE)
"""At some of them there is memory for a copy, but not for two: the worker has freed some memory."""
TRIES_MAX = 5 * len(SIZES)
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate"


@pytest.fixture
def poor(start: Start, interface: str) -> Iterator[Server]:
    """Serve in a worker that has little memory left, and see that the same one serves on."""
    name = {"app": "native", "asgi": "asgi"}[interface]
    most = ("--websocket-message-bytes-max", str(4 * LEFT_BYTES))
    # In the first step, so that `send()` encodes the message itself.
    server = start(f"memory/sockets_{name}.py", *most, "--eager-tasks", "on")
    with server.connect() as client:
        assert client.get("/hello").content == b"hello"
    with connect(server) as socket:
        socket.open("/do")
        socket.say("now bytes 3")
        assert socket.frame().content == bytes(3)
    (worker,) = server.workers()
    limit_memory(worker, LEFT_BYTES)
    yield server
    with server.connect() as client:
        assert client.get("/hello").content == b"hello"
    assert server.workers() == [worker]


def is_logged(server: Server) -> bool:
    """Return whether the lack of memory has its line."""
    return any(LINE in line for line in server.lines)


def send_zeros(socket: WebSocket, size: int, *, is_compressed: bool = False) -> None:
    """Send a message of so many octets of zero, masked with zeros."""
    content = bytes(size)
    if is_compressed:
        compressor = zlib.compressobj(wbits=-15)
        content = compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)[:-4]
    first = 0x80 | BINARY | (0x40 if is_compressed else 0)
    length = len(content)
    if length < 126:
        head = struct.pack("!BB4x", first, 0x80 | length)
    elif length < 65_536:
        head = struct.pack("!BBH4x", first, 0xFE, length)
    else:
        head = struct.pack("!BBQ4x", first, 0xFF, length)
    socket.send(head + content)


@pytest.mark.parametrize("kind", ["bytes", "bytearray"])
@pytest.mark.parametrize("how", ["now", "later"])
def test_a_message_that_cannot_be_held_is_a_memory_error(poor: Server, how: str, kind: str) -> None:
    with connect(poor) as socket:
        socket.open("/do")
        for _ in range(3):
            socket.say(f"{how} {kind} {MUST_FIT_ONCE}")
            assert socket.frame() == text("MemoryError")
        socket.say(f"{how} {kind} 100000")
        assert socket.frame().content == bytes(100_000)
    if (how, kind) == ("now", "bytes"):
        wait_until(lambda: is_logged(poor))


def test_a_message_whose_compressed_form_cannot_be_held_is_a_memory_error(poor: Server) -> None:
    with connect(poor) as socket:
        socket.open("/do", DEFLATE)
        socket.say(f"now random {LEFT_BYTES // 2}")
        assert socket.frame() == text("MemoryError")
    wait_until(lambda: is_logged(poor))


def test_a_message_that_was_accepted_and_cannot_be_encoded_closes(poor: Server) -> None:
    with connect(poor) as socket:
        socket.open("/do")
        socket.say("later bytes 3")
        assert socket.frame().content == bytes(3)
        for size in itertools.islice(itertools.cycle(SIZES), TRIES_MAX):
            socket.say(f"later bytes {size}")
            if (received := socket.frame()) == SHORT:
                break
            # The application itself has no memory while the worker still holds an earlier copy.
            assert received == text("MemoryError") or received.content == bytes(size)
        else:
            pytest.fail("none was accepted and not encoded")
    wait_until(lambda: is_logged(poor))


@pytest.mark.parametrize("interface", ["app"])
def test_a_published_message_that_cannot_be_held_is_a_memory_error(poor: Server) -> None:
    with connect(poor) as socket:
        socket.open("/do")
        for kind in ("bytes", "bytearray"):
            socket.say(f"publish {kind} {MUST_FIT_ONCE}")
            assert socket.frame() == text("MemoryError")
        socket.say("publish bytes 1000")
        assert socket.frame().content == bytes(1000)


@pytest.mark.parametrize("interface", ["app"])
def test_a_message_for_which_there_is_memory_once_reaches_all_subscribers(poor: Server) -> None:
    with connect(poor) as socket, connect(poor) as other:
        other.open("/do")
        socket.open("/do")
        for size in (*SIZES, 2 * LEFT_BYTES):
            socket.say(f"publish bytes {size}")
            received = socket.frame()
            if received == text("MemoryError"):
                break
            assert [received.content, other.frame().content] == [bytes(size)] * 2
        else:
            pytest.fail("all were sent")
        socket.say("publish bytes 3")
        assert [socket.frame().content, other.frame().content] == [bytes(3)] * 2


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("size", [LEFT_BYTES * 3 // 4, 2 * LEFT_BYTES])
def test_a_message_that_arrives_and_cannot_be_held_closes(
    poor: Server, size: int, *, is_compressed: bool
) -> None:
    with connect(poor) as socket:
        socket.open("/do", *([DEFLATE] if is_compressed else []))
        send_zeros(socket, 100_000, is_compressed=is_compressed)
        assert socket.frame() == text("100000")
        # The rest of a message that is refused may find the connection closed.
        try:
            send_zeros(socket, size, is_compressed=is_compressed)
            assert socket.frame() == SHORT
        except (ConnectionError, AssertionError):
            assert not is_compressed
    wait_until(lambda: is_logged(poor))
