"""HTTP/2 in the client role (RFC 9113), only as much as a proof needs: requests without content.

The dynamic table is switched off (SETTINGS_HEADER_TABLE_SIZE is 0), so a response's status is in
its first field representation. Other fields are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
CONTINUATION = 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
HEADER_BYTES = 9
FRAME_BYTES_MAX = 16_384
WINDOW_BYTES = 0x7FFF_FFFF
OPENING = PREFACE + bytes(
    # HEADER_TABLE_SIZE 0, ENABLE_PUSH 0, INITIAL_WINDOW_SIZE 2^31-1; and the connection's window.
    (0, 0, 18, SETTINGS, 0, 0, 0, 0, 0)
    + (0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0x7F, 0xFF, 0xFF, 0xFF)
    + (0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0x7F, 0xFF, 0, 0)
)
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
"""The static table's (RFC 7541 appendix A)."""
STATUS_INDICES = range(8, 15)


class WrongFrameError(Exception):
    """A frame that must not arrive here; the message says which."""


@dataclass
class Stream:
    """A response as far as it has arrived."""

    status: int = 0
    content: bytearray = field(default_factory=bytearray)
    has_end: bool = False
    """Whether END_STREAM has arrived, perhaps with a block that continues."""
    is_complete: bool = False


def request(stream: int, target: str, authority: str, scheme: str) -> bytes:
    """Return a GET as a HEADERS frame: literal fields that no table keeps."""
    fields = (
        (b":method", b"GET"),
        (b":scheme", scheme.encode()),
        (b":path", target.encode()),
        (b":authority", authority.encode()),
    )
    block = b"".join(b"\x00" + _string(name) + _string(value) for name, value in fields)
    return _frame(HEADERS, END_HEADERS | END_STREAM, stream, block)


def status_of(block: bytes) -> int:
    """Return the status in a block of a connection whose table is switched off.

    Raises:
        WrongFrameError: the block does not start with one.
    """
    while block and block[0] & 0xE0 == 0x20:  # a change of the table's size
        if block[0] != 0x20:
            raise WrongFrameError("a table for header compression, which the client refuses")
        block = block[1:]
    first = block[0] if block else 0
    if first & 0x80 and first & 0x7F in STATUSES:
        return STATUSES[first & 0x7F]
    index = first & 0x0F if first < 0x40 else first & 0x3F
    if first >= 0x80 or index not in STATUS_INDICES or len(block) < 2:
        raise WrongFrameError("a header block that does not start with a status")
    length = block[1] & 0x7F
    text = block[2 : 2 + length]
    digits = _digits(text) if block[1] & 0x80 else text.decode("latin-1")
    if len(digits) != 3 or not digits.isdecimal() or not digits.isascii():
        raise WrongFrameError("a status that is not three digits")
    return int(digits)


class Frames:
    """The frames of one connection, in the order in which they arrive.

    `read` returns that many bytes, `send` sends them.
    """

    def __init__(self, read: Callable[[int], bytes], send: Callable[[bytes], None]) -> None:
        self._read = read
        self._send = send
        self._has_settings = False
        self._block = b""
        self.streams: dict[int, Stream] = {}

    def open(self, stream: int) -> None:
        """Expect a response on a stream."""
        self.streams[stream] = Stream()

    def wait(self, stream: int) -> Stream:
        """Return the response of a stream when it is complete.

        Raises:
            WrongFrameError: a frame arrives that must not.
        """
        found = self.streams[stream]
        while not found.is_complete:
            self._next()
        return found

    def _next(self) -> None:
        header = self._read(HEADER_BYTES)
        length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
        stream = int.from_bytes(header[5:], "big") & 0x7FFF_FFFF
        if length > FRAME_BYTES_MAX:
            raise WrongFrameError(f"a frame of {length:,} bytes, more than allowed")
        payload = self._read(length)
        if not self._has_settings and kind != SETTINGS:
            raise WrongFrameError(f"a frame of type {kind} before SETTINGS")
        if kind in (DATA, HEADERS, CONTINUATION):
            self._content(kind, flags, stream, payload)
        elif kind == SETTINGS and not flags & ACK:
            self._has_settings = True
            self._send(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._send(_frame(PING, ACK, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            code = int.from_bytes(payload[4:8] if kind == GOAWAY else payload, "big")
            name = "GOAWAY" if kind == GOAWAY else "RST_STREAM"
            raise WrongFrameError(f"{name} with error {code}")

    def _content(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        found = self.streams.get(stream)
        if found is None or found.is_complete:
            raise WrongFrameError(f"a frame of type {kind} on stream {stream}, which is not open")
        if flags & PADDED and kind != CONTINUATION and payload:
            payload = payload[1 : len(payload) - payload[0]]
        found.has_end = found.has_end or (kind != CONTINUATION and bool(flags & END_STREAM))
        if kind == DATA:
            if not found.status:
                raise WrongFrameError("content before the status")
            found.content += payload
            found.is_complete = found.has_end
        else:
            self._block += payload[5:] if kind == HEADERS and flags & PRIORITY else payload
            if flags & END_HEADERS:
                block, self._block = self._block, b""
                if found.status < 200:  # not the trailer section
                    found.status = status_of(block)
                found.is_complete = found.has_end


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    header = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return header + payload


def _string(text: bytes) -> bytes:
    """Return a string literal without Huffman coding (RFC 7541 5.2)."""
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, length = len(text) - 127, b"\x7f"
    while rest >= 128:
        length += bytes((rest & 127 | 128,))
        rest >>= 7
    return length + bytes((rest,)) + text


def _digits(text: bytes) -> str:
    """Decode digits with Huffman coding (RFC 7541 appendix B); "" if there are others."""
    bits = "".join(f"{byte:08b}" for byte in text)
    found = ""
    while len(bits) >= 5 and "0" in bits:
        five, six = int(bits[:5], 2), int(bits[:6], 2) - 0b011001 + 3
        if five <= 2:
            found, bits = f"{found}{five}", bits[5:]
        elif 3 <= six <= 9 and len(bits) >= 6:
            found, bits = f"{found}{six}", bits[6:]
        else:
            return ""
    return found
