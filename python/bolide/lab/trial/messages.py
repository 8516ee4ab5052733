"""WebSocket in the client role (RFC 6455), only as much as a proof needs."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
LAST, MASKED = 0x80, 0x80
NORMAL = 1000


class WrongMessageError(Exception):
    """What must not arrive here; `kind` is its class in the results."""

    def __init__(self, message: str, kind: str = "malformed") -> None:
        super().__init__(message)
        self.kind = kind


def handshake(target: str, host: str) -> tuple[bytes, str]:
    """Return the request, and the value for Sec-WebSocket-Accept that it needs."""
    key = base64.b64encode(os.urandom(16))
    lines = (
        f"GET {target} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode(), accept_of(key)


def accept_of(key: bytes) -> str:
    """Return the value of Sec-WebSocket-Accept for a key."""
    digest = hashlib.sha1(key + GUID).digest()  # noqa: S324 - the protocol says so
    return base64.b64encode(digest).decode()


def frame(opcode: int, content: bytes, *, is_last: bool = True) -> bytes:
    """Return a frame, masked."""
    mask = os.urandom(4)
    masked = bytes(octet ^ mask[place % 4] for place, octet in enumerate(content))
    length = len(content)
    if length < 126:
        head = bytes((MASKED | length,))
    elif length < 1 << 16:
        head = bytes((MASKED | 126,)) + length.to_bytes(2, "big")
    else:
        head = bytes((MASKED | 127,)) + length.to_bytes(8, "big")
    return bytes(((LAST if is_last else 0) | opcode,)) + head + mask + masked


class Messages:
    """What arrives on one connection; `read` reads that many bytes."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def next(self) -> tuple[int, bytes]:
        """Return the opcode and the content of the next message or control frame.

        A control frame between the fragments of a message comes before it.

        Raises:
            WrongMessageError: the server violates the protocol.
        """
        kind = 0
        parts: list[bytes] = []
        while True:
            opcode, is_last, content = self._frame()
            if opcode >= CLOSE:
                if parts:
                    continue
                return opcode, content
            if (opcode == CONTINUATION) is not bool(parts):
                raise WrongMessageError("a fragment without its message, or a message within one")
            kind = kind or opcode
            parts.append(content)
            if is_last:
                return kind, b"".join(parts)

    def _frame(self) -> tuple[int, bool, bytes]:
        first, second = self._read(2)
        if first & 0x70 or second & MASKED:
            raise WrongMessageError("a reserved bit, or a mask")
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(self._read(2 if length == 126 else 8), "big")
        return first & 0x0F, bool(first & LAST), self._read(length) if length else b""
