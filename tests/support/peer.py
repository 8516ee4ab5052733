"""What adverse clients do: read little, reset, wait in silence."""

from __future__ import annotations

import select
import socket
import struct

from support.client import Connection
from support.server import Server

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER without time."""


def connect(server: Server, receive_buffer_bytes: int) -> Connection:
    """Connect with a small receive buffer: the server sees at once that nothing is read."""
    return Connection(server.address, receive_buffer_bytes=receive_buffer_bytes)


def reset(client: Connection) -> None:
    """Close a connection with a reset."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.socket.close()


def end(client: Connection, way: str) -> None:
    """End a connection in one of the ways in which clients do."""
    if way == "reset":
        reset(client)
    else:
        client.socket.close()


def is_reset(client: Connection, within_s: float) -> bool:
    """Wait for a reset without reading what came before it; return whether it came."""
    poll = select.poll()
    poll.register(client.socket, 0)  # errors are always reported
    return bool(poll.poll(within_s * 1000))


def is_silent(client: Connection, for_s: float) -> bool:
    """Let a time pass; return whether neither a byte nor an end came in it."""
    return not select.select([client.socket], [], [], for_s)[0]
