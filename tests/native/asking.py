"""Asks a server for several texts in one send."""

from __future__ import annotations

from support.client import Reply
from support.server import Server


def request(path: str) -> bytes:
    return f"GET /{path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


def ask(server: Server, *paths: str) -> list[Reply]:
    """Ask for all in one send."""
    with server.connect() as client:
        client.send(b"".join(map(request, paths)))
        return [client.read() for _ in paths]


def text_of(server: Server, path: str) -> str:
    """Ask for one text."""
    (reply,) = ask(server, path)
    assert reply.status == 200, reply.content.decode()
    return reply.content.decode()
