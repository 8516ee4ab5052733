"""WebSockets of a contestant are verified, and one that lies is caught."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from bolide.lab.plan.contestant import Entry
from bolide.lab.trial.messages import CLOSE, PING, PONG, TEXT, accept_of, frame
from bolide.lab.trial.verify import WrongResponseError, verify
from lab.tiny_race import workload

ENTRY = Entry(name="a", title="A", interface="own", command=("a",), serves_messages=True)
Received = tuple[int, bytes]
Behaviour = Callable[[int, bytes], list[bytes]]


def served(opcode: int, content: bytes, *, is_last: bool = True) -> bytes:
    """Return a frame of a server, which has no mask."""
    return bytes(((0x80 if is_last else 0) | opcode, len(content))) + content


def honest(opcode: int, content: bytes) -> list[bytes]:
    """Respond as a server does that sends messages back."""
    return [served(PONG if opcode == PING else opcode, content)]


def exactly(connection: socket.socket, count: int) -> bytes:
    """Read that many bytes; fewer at the end."""
    found = b""
    while len(found) < count and (piece := connection.recv(count - len(found))):
        found += piece
    return found


def frames(connection: socket.socket) -> Iterator[Received]:
    """Yield messages, put together, and control frames."""
    kind, parts = 0, b""
    while head := exactly(connection, 2):
        length = head[1] & 0x7F
        if length == 126:
            length = int.from_bytes(exactly(connection, 2), "big")
        mask = exactly(connection, 4)
        masked = exactly(connection, length)
        content = bytes(octet ^ mask[at % 4] for at, octet in enumerate(masked))
        opcode = head[0] & 0x0F
        if opcode >= CLOSE:
            yield opcode, content
            continue
        kind, parts = kind or opcode, parts + content
        if head[0] & 0x80:
            yield kind, parts
            kind, parts = 0, b""


def serve(connection: socket.socket, behave: Behaviour, refusal: bytes) -> None:
    """Serve one connection."""
    with connection:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (octet := connection.recv(1)):
                return
            head += octet
        if not head.startswith(b"GET / "):
            connection.sendall(b"HTTP/1.1 " + refusal + b"\r\nContent-Length: 0\r\n\r\n")
            return
        key = head.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r")[0]
        accept = accept_of(key).encode()
        connection.sendall(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        for opcode, content in frames(connection):
            connection.sendall(b"".join(behave(opcode, content)))
            if opcode == CLOSE:
                return


@contextmanager
def server(behave: Behaviour, refusal: bytes = b"404 No") -> Iterator[tuple[str, int]]:
    """Run a server, one connection after the other, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(ConnectionError):  # the proof ends at the first mistake
                    serve(connection, behave, refusal)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def proved(behave: Behaviour, refusal: bytes = b"404 No", **load: Any) -> None:
    """Verify a server that behaves so."""
    with server(behave, refusal) as address:
        verify(address, workload(messages="echo", message_bytes=64, **load), ENTRY)


@pytest.mark.parametrize("refusal", [b"404 No", b"403 No"])
def test_an_honest_one_passes(refusal: bytes) -> None:
    proved(honest, refusal, content=None)


def test_pings_and_fragments_of_the_server_are_received() -> None:
    def behave(opcode: int, content: bytes) -> list[bytes]:
        if opcode == PONG:
            assert content == b"there?"
            return []
        if opcode != TEXT:
            return honest(opcode, content)
        first, rest = served(TEXT, content[:3], is_last=False), served(0, content[3:])
        return [served(PING, b"there?"), first, served(PING, b"within"), rest]

    proved(behave, content="a message")


@pytest.mark.parametrize(
    ("behave", "kind", "text"),
    [
        (lambda opcode, content: [served(opcode, content + b"!")], "wrong_body", "not opcode 1"),
        (lambda _, content: [served(2, content)], "wrong_body", "opcode 2"),
        (lambda _, content: [frame(TEXT, content)], "malformed", "a reserved bit, or a mask"),
        (lambda _, content: [served(0, content)], "malformed", "a fragment without its message"),
        (lambda _, __: [served(TEXT | 0x40, b"x")], "malformed", "a reserved bit"),
        (lambda opcode, content: honest(opcode, content) * 2, "wrong_body", "not opcode"),
    ],
)
def test_a_liar_is_caught(behave: Behaviour, kind: str, text: str) -> None:
    with pytest.raises(WrongResponseError) as caught:
        proved(behave, content=None)
    assert (caught.value.kind, text in str(caught.value)) == (kind, True), caught.value


def test_another_path_has_no_websocket() -> None:
    with pytest.raises(WrongResponseError, match="200 for an unknown path, not 403 or 404"):
        proved(honest, b"200 OK", content=None)
