"""Verifies the WebSockets of a contestant before it is measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from bolide.lab.plan.contestant import Entry
from bolide.lab.record.schema import Workload
from bolide.lab.trial import messages
from bolide.lab.trial.messages import (
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Messages,
    WrongMessageError,
)

REPEATED = 3
REFUSALS = (403, 404)
"""The statuses of a path that has no WebSocket: ASGI knows only 403."""
TEXT_OF_PROOF = "a message: \u00e4\u20ac\U0001f600".encode()
SHOWN_BYTES = 40


class Head(Protocol):
    """The head of a response."""

    @property
    def status(self) -> int:
        """Three digits."""

    @property
    def fields(self) -> dict[str, str]:
        """By name, in lower case."""


class Client(AbstractContextManager["Client"], Protocol):
    """A connection to the server."""

    def send(self, *pieces: bytes) -> None:
        """Send the pieces."""

    def head(self) -> Head:
        """Read the head of a response."""

    def read(self, count: int) -> bytes:
        """Read that many bytes."""


class Socket:
    """One WebSocket."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._received = Messages(client.read)

    def send(self, opcode: int, content: bytes, *, is_last: bool = True) -> None:
        """Send one frame."""
        self._client.send(messages.frame(opcode, content, is_last=is_last))

    def expect(self, opcode: int, content: bytes) -> None:
        """Check that this comes next; pings get their pongs.

        Raises:
            WrongMessageError: something else comes.
        """
        found, received = self._received.next()
        while found == PING:
            self.send(PONG, received)
            found, received = self._received.next()
        if (found, received) != (opcode, content):
            raise WrongMessageError(
                f"opcode {found} with {len(received)} bytes {received[:SHOWN_BYTES]!r}, "
                f"not opcode {opcode} with {len(content)} bytes {content[:SHOWN_BYTES]!r}",
                "wrong_body",
            )

    def close(self) -> None:
        """Close it, which the server has to confirm.

        Raises:
            WrongMessageError: it sends something else.
        """
        code = messages.NORMAL.to_bytes(2, "big")
        self.send(CLOSE, code)
        opcode, content = self._received.next()
        if opcode != CLOSE or content[:2] not in (code, b""):
            raise WrongMessageError(f"opcode {opcode} {content!r} after a close")


def verify(
    connect: Callable[[], Client], host: str, workload: Workload, entry: Entry, unknown: str
) -> None:
    """Verify messages, fragments, pings, the close and a path without a WebSocket.

    Raises:
        WrongMessageError: something is wrong.
    """
    content = (workload.content or "").encode() or TEXT_OF_PROOF
    with ExitStack() as stack:

        def opened(target: str) -> Socket:
            client = stack.enter_context(connect())
            request, accept = messages.handshake(target, host)
            client.send(request)
            head = client.head()
            found = head.fields.get("sec-websocket-accept")
            if head.status != 101 or found != accept:
                message = f"status {head.status} to a handshake"
                raise WrongMessageError(message, "wrong_status")
            return Socket(client)

        sockets = [opened(workload.target)]
        if workload.messages == "broadcast":
            sockets += [opened(workload.target) for _ in range(REPEATED)]
        _exchange(sockets, content, has_responses=workload.messages != "one-way")
        for socket in sockets:
            socket.close()
        if not entry.is_canned:
            client = stack.enter_context(connect())
            client.send(messages.handshake(unknown, host)[0])
            if (status := client.head().status) not in REFUSALS:
                expected = " or ".join(map(str, REFUSALS))
                message = f"{status} for an unknown path, not {expected}"
                raise WrongMessageError(message, "wrong_status")


def _exchange(sockets: list[Socket], content: bytes, *, has_responses: bool) -> None:
    first = sockets[0]

    def arrives(text: bytes) -> None:
        for socket in sockets if has_responses else ():
            socket.expect(TEXT, text)

    for number in range(REPEATED):
        text = content + str(number).encode()
        first.send(TEXT, text)
        arrives(text)
    half = len(content) // 2  # perhaps within a character
    first.send(TEXT, content[:half], is_last=False)
    first.send(CONTINUATION, content[half:])
    arrives(content)
    first.send(PING, b"still there?")
    first.expect(PONG, b"still there?")
