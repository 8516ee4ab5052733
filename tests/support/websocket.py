"""A WebSocket's client on which the test decides every byte (RFC 6455)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from support.client import Connection, Reply
from support.server import Server

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""The example of RFC 6455 section 1.3."""

MASK = b"\x37\xfa\x21\x3d"


def handshake(path: str, *fields: str) -> bytes:
    """Return a handshake of HTTP/1.1."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: test",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
        *fields,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def frame(opcode: int, content: bytes | str = b"", *, is_last: bool = True) -> bytes:
    """Return a frame of a client."""
    octets = content.encode() if isinstance(content, str) else content
    first = opcode | (0x80 if is_last else 0)
    if len(octets) < 126:
        head = struct.pack("!BB", first, 0x80 | len(octets))
    elif len(octets) < 65_536:
        head = struct.pack("!BBH", first, 0x80 | 126, len(octets))
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, len(octets))
    masked = bytes(octet ^ MASK[place % 4] for place, octet in enumerate(octets))
    return head + MASK + masked


def close_frame(code: int | None = 1000, reason: str = "") -> bytes:
    """Return a close frame of a client."""
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + reason.encode())


@dataclass(frozen=True)
class Frame:
    """A frame of the server: never masked, never compressed."""

    opcode: int
    content: bytes
    is_last: bool = True


def text(content: str) -> Frame:
    """Return the frame of a whole text."""
    return Frame(TEXT, content.encode())


def closing(code: int, reason: str = "") -> Frame:
    """Return a close frame."""
    return Frame(CLOSE, struct.pack("!H", code) + reason.encode())


class WebSocket(Connection):
    """A connection that reads frames once the handshake is done."""

    def open(self, path: str, *fields: str) -> Reply:
        """Open a WebSocket, and check what its response must be."""
        self.ask(path, *fields)
        return self.read_opening()

    def ask(self, path: str, *fields: str) -> None:
        """Send a handshake."""
        self.send(handshake(path, *fields))

    def read_opening(self) -> Reply:
        """Read the response that accepts a handshake."""
        reply = self.read_head()
        assert reply.status == 101, reply
        assert (reply.get("upgrade") or "").lower() == "websocket"
        assert (reply.get("connection") or "").lower() == "upgrade"
        assert reply.get("sec-websocket-accept") == ACCEPT
        assert reply.get("content-length") is None
        assert reply.get("transfer-encoding") is None
        return reply

    def frame(self) -> Frame:
        """Read a frame."""
        first, second = self._read_exactly(2)
        assert not first & 0x70 and not second & 0x80, "a reserved bit or a mask"
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._read_exactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._read_exactly(8))
        return Frame(first & 0x0F, self._read_exactly(length), bool(first & 0x80))

    def say(self, content: str) -> None:
        """Send a text."""
        self.send(frame(TEXT, content))


def connect(server: Server) -> WebSocket:
    """Connect to a server."""
    return WebSocket(server.address)
