"""WebSockets over TLS, and on streams of HTTP/2 (RFC 8441): clients like `websocket.WebSocket`."""

from __future__ import annotations

import ssl
from typing import Any

from support import h2
from support.client import Connection, Reply
from support.server import Server
from support.websocket import WebSocket

CARRIERS = ("http/1.1", "http/1.1 over TLS", "http/2 over TLS")
SECURE = ("--certificate", "self-signed")
"""The options of a server for the latter two."""

STREAM = 1
DATA_BYTES_MAX = 16_384


def secured(connection: Connection, protocol: str = "http/1.1") -> None:
    """Do the handshake of TLS on a connection; nobody signs the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    connection.socket = context.wrap_socket(connection.socket)
    assert connection.socket.selected_alpn_protocol() == protocol


def connect_by(carrier: str, server: Server, **options: Any) -> WebSocket:
    """Connect to a server; the WebSocket is not open yet."""
    if carrier == "http/2 over TLS":
        return StreamSocket(server.address, **options)
    socket = WebSocket(server.address, **options)
    if carrier == "http/1.1 over TLS":
        secured(socket)
    return socket


class StreamSocket(WebSocket):
    """A WebSocket on the first stream of a connection.

    Its windows open as far as frames are read: a test that does not read stops its server.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        secured(self, "h2")
        self.client = h2.Client(self, scheme="https")
        self._room = {0: h2.WINDOW_BYTES, STREAM: h2.WINDOW_BYTES}
        self._seen_frames = 0

    def ask(self, path: str, *fields: str) -> None:
        """Send a handshake."""
        while not self._room_changes():  # SETTINGS say that the server knows the method
            self.client.read()
        pairs = (field.split(": ", 1) for field in fields)
        own = [(name.lower().encode(), value.encode()) for name, value in pairs]
        asked = h2.request_fields("CONNECT", path, scheme="https")
        asked.insert(1, (b":protocol", b"websocket"))
        asked.append((b"sec-websocket-version", b"13"))
        super().send(h2.headers(STREAM, [*asked, *own], is_last=False))

    def read_opening(self) -> Reply:
        """Read the response that accepts a handshake."""
        reply = self.read_head()
        assert reply.status == 200, reply
        for name in ("upgrade", "connection", "sec-websocket-accept", "content-length"):
            assert reply.get(name) is None
        return reply

    def read_head(self) -> Reply:
        """Read the header section of the response."""
        while not self._message.status:
            self.client.read()
        fields = [pair for pair in self._message.fields if not pair[0].startswith(":")]
        return Reply(self._message.status, fields)

    def read(self, method: str = "CONNECT") -> Reply:
        """Read a response that refuses."""
        message = self.client.response(STREAM)
        assert message.is_complete, message
        reply = self.read_head()
        reply.content = bytes(message.content)
        return reply

    def send(self, data: bytes) -> None:
        """Send frames, as far as the windows allow; wait for more room."""
        if not hasattr(self, "client"):
            return super().send(data)  # the preface
        while data:
            self._room_changes()
            room = min(*self._room.values(), DATA_BYTES_MAX)
            if room <= 0:
                self.client.read()
                continue
            part, data = data[:room], data[room:]
            super().send(h2.data(STREAM, part))
            for window in self._room:
                self._room[window] -= len(part)
        return None

    def take(self, most_bytes: int) -> bytes:
        """Take at most so many octets of what comes next, and open the windows by as many."""
        content = self._message.content
        while not content and not self._message.is_over:
            self.client.read()
        taken = bytes(content[:most_bytes])
        del content[:most_bytes]
        if taken:
            updates = (h2.window_update(window, len(taken)) for window in self._room)
            super().send(b"".join(updates))
        return taken

    def is_closed(self) -> bool:
        """Wait until the server ends the stream; return whether it did so without another octet."""
        message = self.client.response(STREAM)
        return message.is_complete and not message.content

    @property
    def _message(self) -> h2.Message:
        return self.client.messages.setdefault(STREAM, h2.Message())

    def _room_changes(self) -> bool:
        """Count the room that has arrived. Returns whether the server's settings have."""
        new = self.client.frames[self._seen_frames :]
        self._seen_frames += len(new)
        for frame in new:
            value = int.from_bytes(frame.payload[:4], "big")
            if frame.kind == h2.Kind.WINDOW_UPDATE:
                self._room[frame.stream] += value
            if frame.kind == h2.Kind.SETTINGS and not frame.flags & h2.ACK:
                values = frame.payload
                pairs = [values[start : start + 6] for start in range(0, len(values), 6)]
                settings = {int.from_bytes(pair[:2]): int.from_bytes(pair[2:]) for pair in pairs}
                assert settings[8] == 1, "ENABLE_CONNECT_PROTOCOL"
                window = settings.get(h2.Setting.INITIAL_WINDOW_SIZE, h2.WINDOW_BYTES)
                self._room[STREAM] += window - h2.WINDOW_BYTES
                self._has_settings = True
        return self._has_settings

    _has_settings = False
