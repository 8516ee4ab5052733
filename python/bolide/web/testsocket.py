"""`TestSocket`: the client's side of a WebSocket, for tests (RFC 6455).

It blocks, as `TestClient` does, and offers no compression. It responds to pings. It does not check
what the server must not do: the server's own tests do that.
"""

import base64
import hashlib
import http.client
import io
import os
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from bolide.errors import Error, WebSocketClosed
from bolide.web.multidict import Headers
from bolide.web.result import Result

__all__ = ["TestSocket", "WebSocketRefused"]

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_NO_CODE: Final = 1005
_ABNORMAL: Final = 1006
_HEAD_BYTES_MAX: Final = 65_536


class WebSocketRefused(Error):  # noqa: N818 - what happened, as in WebSocketClosed
    """The handshake of a WebSocket got another response, which is `result`."""

    result: Result

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(f"the handshake got {result.status}: {result.text.strip()[:200]}")


class TestSocket:
    """A WebSocket as its client has it. Leaving `with` closes it.

    `headers` are those of the response, `subprotocol` is the one that the server selected.
    """

    __test__ = False  # pytest: this class is not a test itself

    headers: Headers
    subprotocol: str | None

    def __init__(
        self,
        sock: socket.socket,
        target: str,
        fields: Sequence[tuple[str, str]],
        subprotocols: Sequence[str] = (),
    ) -> None:
        """Send the handshake over a connection and read the response.

        Raises:
            WebSocketRefused: the response is not the handshake's.
            TimeoutError: the server did not respond in time.
        """
        self._sock = sock
        self._arrived = bytearray()
        """What has arrived after the last whole frame."""
        self._kind = _CONTINUATION
        """The opcode of the message whose fragments are arriving."""
        self._parts = b""
        self._end: tuple[int, str] | None = None
        """Code and reason of the first close frame of either side."""
        key = base64.b64encode(os.urandom(16))
        lines = {
            "host": "testserver",
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-key": key.decode(),
            "sec-websocket-version": "13",
        }
        if subprotocols:
            lines["sec-websocket-protocol"] = ", ".join(subprotocols)
        own = {name for name, _ in fields}
        pairs = [line for line in lines.items() if line[0] not in own] + list(fields)
        text = "".join(f"{name}: {value}\r\n" for name, value in pairs)
        sock.sendall(f"GET {target} HTTP/1.1\r\n{text}\r\n".encode("latin-1"))
        self.headers = self._read_response(_accept(key))
        self.subprotocol = self.headers.get("sec-websocket-protocol")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, if that has not happened."""
        self.close()

    def send(self, message: str | bytes) -> None:
        """Send a message: text for a str, binary data for bytes.

        Raises:
            WebSocketClosed: either side has closed it.
            OSError: the connection has ended.
        """
        self._check_open()
        if isinstance(message, str):
            self._send_frame(_TEXT, message.encode())
        else:
            self._send_frame(_BINARY, message)

    def receive(self) -> str | bytes:
        """Receive the next message.

        Raises:
            WebSocketClosed: either side has closed it.
            TimeoutError: it did not arrive in time; another call receives it.
        """
        self._check_open()
        while True:
            is_last, opcode, content = self._read_frame()
            if opcode == _CLOSE:
                raise self._closed_by_server(content)
            if opcode == _PING:
                self._send_frame(_PONG, content)
            elif opcode != _PONG:
                self._kind = opcode or self._kind
                self._parts += content
                if is_last:
                    message, self._parts = self._parts, b""
                    return message.decode() if self._kind == _TEXT else message

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it, and wait until the server has closed its side; messages are dropped."""
        try:
            if self._end is None:
                self._end = (code, reason)
                self._send_frame(_CLOSE, struct.pack("!H", code) + reason.encode())
                while self._read_frame()[1] != _CLOSE:
                    pass
        except (WebSocketClosed, ConnectionError):
            pass  # the server has closed it, or the connection has ended
        finally:
            self._sock.close()

    def _check_open(self) -> None:
        if self._end is not None:
            raise WebSocketClosed(*self._end)

    def _closed_by_server(self, content: bytes) -> WebSocketClosed:
        code = struct.unpack("!H", content[:2])[0] if content else _NO_CODE
        self._end = (code, content[2:].decode())
        try:
            self._send_frame(_CLOSE, content[:2])
        except OSError:
            pass  # the server has closed the connection already
        return WebSocketClosed(*self._end)

    def _read_response(self, accept: bytes) -> Headers:
        """Read the response's head, and keep what follows it."""
        head, content = self._read_head()
        if not head.startswith(b"HTTP/1.1 101 "):
            # It only opens the connection as a file.
            received = _Received(head + content, self._sock)
            response = http.client.HTTPResponse(received)  # type: ignore[arg-type]
            response.begin()
            result = Result(response.status, Headers(response.getheaders()), response.read())
            self._sock.close()
            raise WebSocketRefused(result)
        self._arrived += content
        lines = head.decode("latin-1").split("\r\n")[1:-2]
        pairs = [line.split(":", 1) for line in lines]
        headers = Headers((name.lower(), value.strip()) for name, value in pairs)
        if headers.get("sec-websocket-accept") != accept.decode():
            raise ConnectionError("the response to the handshake has another Sec-WebSocket-Accept")
        return headers

    def _read_head(self) -> tuple[bytes, bytes]:
        """Return the response's head with the empty line at its end, and what follows it."""
        received = b""
        while b"\r\n\r\n" not in received:
            if len(received) >= _HEAD_BYTES_MAX:
                raise ConnectionError("the head of the response to the handshake is too long")
            part = self._sock.recv(_HEAD_BYTES_MAX)
            if not part:
                raise ConnectionError("the server closed the connection during the handshake")
            received += part
        head, end, content = received.partition(b"\r\n\r\n")
        return head + end, content

    def _read_frame(self) -> tuple[bool, int, bytes]:
        """Take the next frame, once it has arrived whole: a timeout before that loses nothing."""
        self._wait_for(2)
        first, length, start = self._arrived[0], self._arrived[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            self._wait_for(start)
            length = int.from_bytes(self._arrived[2:start], "big")
        self._wait_for(start + length)
        content = bytes(self._arrived[start : start + length])
        del self._arrived[: start + length]
        return bool(first & 0x80), first & 0x0F, content

    def _wait_for(self, count: int) -> None:
        """Wait until so many octets have arrived."""
        while len(self._arrived) < count:
            part = self._sock.recv(max(65_536, count - len(self._arrived)))
            if not part:
                if self._end is None:
                    self._end = (_ABNORMAL, "the connection ended without a close frame")
                raise WebSocketClosed(*self._end)
            self._arrived += part

    def _send_frame(self, opcode: int, content: bytes) -> None:
        """Send a frame, masked as a client's frames are (RFC 6455 §5.3)."""
        length = len(content)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        elif length < 65_536:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
        mask = os.urandom(4)
        repeated = (mask * (length // 4 + 1))[:length]
        masked = int.from_bytes(content, "big") ^ int.from_bytes(repeated, "big")
        self._sock.sendall(head + mask + masked.to_bytes(length, "big"))


class _Received(io.RawIOBase):
    """What a connection has received, and what it will receive, for `http.client`."""

    def __init__(self, received: bytes, sock: socket.socket) -> None:
        self._received = received
        self._sock = sock

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._received:
            return self._sock.recv_into(buffer)
        part = self._received[: len(buffer)]
        self._received = self._received[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def _accept(key: bytes) -> bytes:
    """Return the value of Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
