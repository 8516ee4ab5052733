"""Speaks HTTP/2 from a socket, frame by frame; the test decides every byte.

Frames are written and read here; header blocks are decoded by `hpack`, which is not ours, and
written without compression, so that a test may write what no library would.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

import hpack

from support.client import Connection

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WINDOW_BYTES = 65_535

Field = tuple[bytes, bytes]


class Kind(IntEnum):
    """Types of frames (RFC 9113 section 6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Code(IntEnum):
    """Error codes (RFC 9113 section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Settings (RFC 9113 section 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


@dataclass(frozen=True)
class Frame:
    """One frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> Code:
        """The error code of RST_STREAM or GOAWAY."""
        at = 4 if self.kind == Kind.GOAWAY else 0
        return Code(int.from_bytes(self.payload[at : at + 4], "big"))

    @property
    def last_stream(self) -> int:
        """The last stream that GOAWAY names."""
        return int.from_bytes(self.payload[:4], "big")


@dataclass
class Message:
    """What has arrived on a stream."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)
    trailers: list[tuple[str, str]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)
    is_complete: bool = False
    reset: Code | None = None

    @property
    def status(self) -> int:
        """The status of the final response."""
        return int(self.get(":status") or 0)

    def get(self, name: str) -> str | None:
        """Return the value of a field that must not be there twice."""
        values = [value for each, value in self.fields if each == name]
        assert len(values) < 2, f"{name} is there {len(values)} times"
        return values[0] if values else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more arrives."""
        return self.is_complete or self.reset is not None


class ClosedError(Exception):
    """The server has ended the connection."""


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return the bytes of a frame."""
    header = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return header + struct.pack(">I", stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    payload = b"".join(struct.pack(">HI", *each) for each in values.items())
    return frame(Kind.SETTINGS, 0, payload)


def data(stream: int, content: bytes, is_last: bool = False) -> bytes:
    """Return a DATA frame."""
    return frame(Kind.DATA, stream, content, END_STREAM if is_last else 0)


def reset(stream: int, code: Code = Code.CANCEL) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(Kind.RST_STREAM, stream, struct.pack(">I", code))


def window_update(stream: int, increment: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(Kind.WINDOW_UPDATE, stream, struct.pack(">I", increment))


def block(fields: Iterable[Field]) -> bytes:
    """Return a header block of literals that enter no table (RFC 7541 section 6.2.2)."""
    parts = (b"\x00" + literal(name) + literal(value) for name, value in fields)
    return b"".join(parts)


def literal(value: bytes) -> bytes:
    """Return a string literal without Huffman coding (RFC 7541 section 5.2)."""
    return number(len(value), 7) + value


def number(value: int, prefix_bits: int) -> bytes:
    """Return an integer (RFC 7541 section 5.1); the bits before it are 0."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes((value,))
    value, out = value - most, bytearray((most,))
    while value >= 0x80:
        out.append(value % 0x80 + 0x80)
        value //= 0x80
    return bytes((*out, value))


def request_fields(method: str, path: str, *fields: Field, scheme: str = "http") -> list[Field]:
    """Return the fields of a request."""
    pseudo = {":method": method, ":scheme": scheme, ":authority": "test", ":path": path}
    return [*((name.encode(), value.encode()) for name, value in pseudo.items()), *fields]


def headers(stream: int, fields: Iterable[Field], is_last: bool = True) -> bytes:
    """Return a HEADERS frame with the whole block."""
    flags = END_HEADERS | (END_STREAM if is_last else 0)
    return frame(Kind.HEADERS, stream, block(fields), flags)


def get(stream: int, path: str, *fields: Field) -> bytes:
    """Return a request without content."""
    return headers(stream, request_fields("GET", path, *fields))


def post(stream: int, path: str, *fields: Field) -> bytes:
    """Return the header section of a request with content."""
    return headers(stream, request_fields("POST", path, *fields), is_last=False)


class Client:
    """A client's connection. Windows open only when the test opens them."""

    def __init__(
        self,
        connection: Connection,
        values: dict[int, int] | None = None,
        scheme: str = "http",
        prefix: bytes | None = None,
    ) -> None:
        self.connection = connection
        self.socket: socket.socket = connection.socket
        self.scheme = scheme
        self.messages: dict[int, Message] = {}
        self.frames: list[Frame] = []
        """Every frame that was read, without DATA and HEADERS."""
        self._decoder = hpack.Decoder()
        self._received = bytearray()
        self.send(PREFACE + settings(values or {}) if prefix is None else prefix)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(b"".join(parts))

    def read(self) -> Frame:
        """Read one frame, acknowledge settings, and add messages to their streams.

        Raises:
            ClosedError: the connection has ended.
        """
        header = self._take(9)
        frame_ = Frame(
            header[3],
            header[4],
            int.from_bytes(header[5:9], "big") & 0x7FFFFFFF,
            self._take(int.from_bytes(header[:3], "big")),
        )
        if frame_.kind in (Kind.DATA, Kind.HEADERS):
            self._add(frame_)
            return frame_
        self.frames.append(frame_)
        if frame_.kind == Kind.SETTINGS and not frame_.flags & ACK:
            self.send(frame(Kind.SETTINGS, 0, flags=ACK))
        if frame_.kind == Kind.RST_STREAM:
            message = self.messages.setdefault(frame_.stream, Message())
            assert message.reset is None, f"stream {frame_.stream} was reset twice"
            message.reset = frame_.code
        return frame_

    def read_until(self, kind: Kind, stream: int | None = None) -> Frame:
        """Read until a frame of that type comes, on that stream if one is named."""
        while True:
            last = self.read()
            if last.kind == kind and stream in (None, last.stream):
                return last

    def response(self, stream: int) -> Message:
        """Read until the response on a stream is complete or reset."""
        while not self.messages.setdefault(stream, Message()).is_over:
            self.read()
        return self.messages[stream]

    def request(self, stream: int, path: str, *fields: Field) -> Message:
        """Send a request without content and read its response."""
        self.send(headers(stream, request_fields("GET", path, *fields, scheme=self.scheme)))
        return self.response(stream)

    def content(self, stream: int, size: int) -> bytearray:
        """Read until so much content has arrived on a stream, and all that comes with it."""
        message = self.messages.setdefault(stream, Message())
        while len(message.content) < size:
            self.read()
        self.ping()
        return message.content

    def end(self) -> Frame | None:
        """Read to the end of the connection; return the last GOAWAY."""
        try:
            while True:
                self.read()
        except (ClosedError, ConnectionResetError, BrokenPipeError):
            pass
        goaways = [each for each in self.frames if each.kind == Kind.GOAWAY]
        return goaways[-1] if goaways else None

    def ping(self) -> None:
        """Wait until the server has read everything that was sent, and has sent what it could."""
        for question in (b"question", b"and sent"):  # content follows the first acknowledgement
            self.send(frame(Kind.PING, 0, question))
            while self.read_until(Kind.PING).payload != question:
                pass

    def _add(self, part: Frame) -> None:
        message = self.messages.setdefault(part.stream, Message())
        assert not message.is_over, f"{Kind(part.kind).name} after the end of {part.stream}"
        if part.kind == Kind.DATA:
            assert message.status, "content before the header section"
            message.content += part.payload
        else:
            assert part.flags & END_HEADERS, "this client reads no CONTINUATION"
            fields = [(str(name), str(value)) for name, value in self._decoder.decode(part.payload)]
            names = [name for name, _ in fields]
            assert all(name == name.lower() for name in names), names
            if message.status:
                assert part.flags & END_STREAM, "a second header section within a response"
                message.trailers = fields
            elif names[0] == ":status" and fields[0][1].startswith("1"):
                message.interim.append(int(fields[0][1]))
            else:
                message.fields = fields
        message.is_complete = bool(part.flags & END_STREAM)

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            got = self.socket.recv(1 << 16)
            if not got:
                raise ClosedError
            self._received += got
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken


Connect = Callable[..., Client]
"""The fixture `connect`: takes a server and settings, returns a client whose preface is sent."""
