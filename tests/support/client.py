"""Reads HTTP/1.1 responses from a socket, strictly and with nothing but the standard library.

The tests judge the server with it, so it shares no code with the server. It refuses what a lenient
client would let pass; `AssertionError` says what it was.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass, field
from typing import Any

STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-9][0-9]{2}) ([\x20-\x7e]*)")
FIELD_LINE = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?"
)


@dataclass
class Reply:
    """A final response, and the statuses of the interim ones before it."""

    status: int
    fields: list[tuple[str, str]]
    content: bytes = b""
    interim: list[int] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        """Return the value of a field that must not be there twice."""
        values = [value for each, value in self.fields if each == name]
        assert len(values) < 2, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        """Return the content, which is JSON."""
        return json.loads(self.content)

    @property
    def is_last(self) -> bool:
        """Whether the server said that it closes the connection after it."""
        return "close" in (self.get("connection") or "").lower().split(", ")


class Connection:
    """A client's connection on which the test decides every byte."""

    def __init__(
        self,
        address: tuple[str, int] | str,
        timeout_s: float = 10,
        receive_buffer_bytes: int | None = None,
        source: str | None = None,
    ) -> None:
        is_path = isinstance(address, str)
        is_ipv6 = not is_path and ":" in address[0]
        family = socket.AF_UNIX if is_path else socket.AF_INET6 if is_ipv6 else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(timeout_s)
        if receive_buffer_bytes is not None:
            # Before the connection is made: its window is scaled by it.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            if source is not None:
                self.socket.bind((source, 0))
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        if not is_path:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def get(self, path: str, *fields: str) -> Reply:
        """Send a GET request and read its response."""
        lines = [f"GET {path} HTTP/1.1", "Host: test", *fields, "", ""]
        self.send("\r\n".join(lines).encode())
        return self.read()

    def post(self, path: str, content: bytes, *fields: str) -> Reply:
        """Send a POST request with content of known length and read its response."""
        lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(content)}", *fields]
        self.send("\r\n".join([*lines, "", ""]).encode() + content)
        return self.read()

    def read(self, method: str = "GET") -> Reply:
        """Read a final response to a request of that method."""
        interim = []
        while (reply := self.read_head()).status < 200:
            interim.append(reply.status)
        reply.interim = interim
        reply.content = self._read_content(reply, method)
        return reply

    def is_closed(self) -> bool:
        """Wait until the peer closes; return whether it did so without another byte."""
        try:
            return not self._received and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_at_end(self) -> bool:
        """Wait for the next byte, without taking it; return whether the end came in its place."""
        return not self._received and self.socket.recv(1, socket.MSG_PEEK) == b""

    def has_more(self) -> bool:
        """Wait for the next bytes, and keep them; return whether some came before the end."""
        return bool(self._received) or self._receive()

    def read_to_end(self) -> bytes:
        """Read whatever comes until the peer closes."""
        while self._receive():
            pass
        rest, self._received = self._received, b""
        return rest

    def take(self, most_bytes: int) -> bytes:
        """Read at most so many bytes of what comes next; none at the end."""
        if not self._received:
            return self.socket.recv(most_bytes)
        taken, self._received = self._received[:most_bytes], self._received[most_bytes:]
        return taken

    def read_until(self, mark: bytes) -> bytes:
        """Read up to a mark and with it."""
        while mark not in self._received:
            assert self._receive(), f"the connection ended in {self._received!r}"
        before, _, self._received = self._received.partition(mark)
        return before + mark

    def read_head(self) -> Reply:
        """Read a status line and a header section, all there is of an interim response."""
        status = STATUS_LINE.fullmatch(self._read_line())
        assert status, "malformed status line"
        fields = []
        while line := self._read_line():
            match = FIELD_LINE.fullmatch(line)
            assert match, f"malformed field line {line!r}"
            fields.append((match[1].decode().lower(), (match[2] or b"").decode()))
        return Reply(int(status[1]), fields)

    def _read_content(self, reply: Reply, method: str) -> bytes:
        coding, length = reply.get("transfer-encoding"), reply.get("content-length")
        assert coding is None or length is None, "both Transfer-Encoding and Content-Length"
        if reply.status in (204, 304) or method == "HEAD":
            return b""
        if coding is not None:
            assert coding == "chunked", f"unknown transfer coding {coding}"
            return self._read_chunked()
        if length is not None:
            assert re.fullmatch("[0-9]+", length), f"malformed length {length}"
            return self._read_exactly(int(length))
        assert reply.is_last, "content without a length on a connection that stays open"
        return self.read_to_end()

    def _read_chunked(self) -> bytes:
        content = b""
        while True:
            size_line = self._read_line()
            assert re.fullmatch(b"[0-9a-fA-F]+", size_line), f"malformed chunk size {size_line!r}"
            if int(size_line, 16) == 0:
                assert self._read_line() == b"", "trailer fields were not expected"
                return content
            content += self._read_exactly(int(size_line, 16))
            assert self._read_line() == b"", "no line end after a chunk"

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._received:
            assert self._receive(), f"the connection ended in {self._received!r}"
        line, _, self._received = self._received.partition(b"\r\n")
        assert b"\n" not in line and b"\r" not in line, f"a bare line end in {line!r}"
        return line

    def _read_exactly(self, size: int) -> bytes:
        content = bytearray()
        while missing := size - len(content):
            part = self.take(missing)
            assert part, f"the connection ended {missing} bytes early"
            content += part
        return bytes(content)

    def _receive(self) -> bool:
        data = self.socket.recv(65536)
        self._received += data
        return bool(data)
