"""Requests over HTTP/2 one group after another; the windows are kept open."""

from __future__ import annotations

from support import h2
from support.h2 import Kind


class Streams:
    """A connection on which requests are made again and again."""

    def __init__(self, client: h2.Client) -> None:
        self.client = client
        self._next = 1
        self._room = h2.WINDOW_BYTES

    def get(self, path: str, names: list[str]) -> dict[str, bytes]:
        """Make requests at once, which differ in their names; return the contents."""
        opened = {name: self._open() for name in names}
        fields = {
            stream: h2.request_fields("GET", f"{path}&id={name}", scheme=self.client.scheme)
            for name, stream in opened.items()
        }
        self.client.send(*(h2.headers(stream, each) for stream, each in fields.items()))
        return {name: self._content(stream) for name, stream in opened.items()}

    def post(self, path: str, content: bytes) -> bytes:
        """Send content that fits into one frame; return that of the response."""
        stream = self._open()
        fields = h2.request_fields("POST", path, scheme=self.client.scheme)
        self.client.send(h2.headers(stream, fields, is_last=False))
        self._count_room()
        while self._room < len(content):
            self.client.read()
            self._count_room()
        self._room -= len(content)
        self.client.send(h2.data(stream, content, is_last=True))
        return self._content(stream)

    def _open(self) -> int:
        self._next += 2
        return self._next - 2

    def _content(self, stream: int) -> bytes:
        message = self.client.response(stream)
        assert message.is_complete and message.status == 200, message
        del self.client.messages[stream]
        if message.content:
            self.client.send(h2.window_update(0, len(message.content)))
        return bytes(message.content)

    def _count_room(self) -> None:
        for frame in self.client.frames:
            if frame.kind == Kind.WINDOW_UPDATE and frame.stream == 0:
                self._room += int.from_bytes(frame.payload, "big")
        self.client.frames.clear()
