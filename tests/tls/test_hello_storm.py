"""Clients that send a ClientHello and nothing else do not fill a worker's descriptors."""

from __future__ import annotations

import os
import socket
import ssl
import struct

import pytest

from support.server import Server, Start
from support.waiting import wait_until
from tls.authority import Files, SecureConnection
from tls.test_transport import hello

pytestmark = pytest.mark.slow

QUEUED_MAX = 40
"""Handshakes that wait before no further client is accepted: half of the maximum of connections."""
OPTIONS = ["--connections-max", str(2 * QUEUED_MAX), "--tls-handshakes-max", "2"]
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close a reset."""
OPEN_MAX = QUEUED_MAX * 9 // 5
"""These, those that were accepted before they were known to wait, and two with a place."""
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def connect(server: Server, first: bytes) -> socket.socket:
    assert isinstance(server.address, tuple)
    client = socket.create_connection(server.address)
    client.sendall(first)
    return client


@pytest.mark.parametrize("leaves_by_reset", [True, False])
def test_most_of_them_wait_in_the_listening_socket(
    start: Start, files: Files, client: ssl.SSLContext, leaves_by_reset: bool
) -> None:
    server = start("basic.py", *files.options, *OPTIONS)
    [worker] = server.workers()
    with SecureConnection(server, client) as earlier:
        earlier.send(REQUEST)
        assert earlier.read().status == 200
    before = descriptors(worker)
    first = hello(client)
    storm = [connect(server, first) for _ in range(3 * QUEUED_MAX)]
    wait_until(lambda: descriptors(worker) >= before + QUEUED_MAX)
    for attacker in storm:
        assert descriptors(worker) <= before + OPEN_MAX
        if leaves_by_reset:
            attacker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        attacker.close()
    with SecureConnection(server, client) as victim:
        victim.send(REQUEST)
        assert victim.read().status == 200
    wait_until(lambda: descriptors(worker) <= before, patience_s=30)
