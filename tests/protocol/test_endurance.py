"""Clients that vanish, connections and requests in great number: nothing is left."""

import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import Server, Start

pytestmark = pytest.mark.slow

CRASHING_CLIENT = """\
import socket, sys
clients = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(20)]
for client in clients:
    client.sendall(b"GET %s HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n" % sys.argv[2].encode())
    client.recv(1)
print("receiving", flush=True)
sys.stdin.read()
"""


def open_files(server: Server) -> int:
    """Count the descriptors of the worker."""
    return len(os.listdir(f"/proc/{server.workers()[0]}/fd"))


def resident_bytes(server: Server) -> int:
    """Report how much memory the worker has in use."""
    fields = Path(f"/proc/{server.workers()[0]}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that can only be asked for again and again."""
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)


@pytest.mark.parametrize("target", ["/stream/1000000", "/stream-later/1000000", "/big/9000000"])
def test_clients_that_are_killed_inside_a_response_leave_nothing(start: Start, target: str) -> None:
    server = start("protocol.py")
    with server.connect() as other:
        other.get("/")
        before = open_files(server)
        assert isinstance(server.address, tuple)
        with subprocess.Popen(
            [sys.executable, "-c", CRASHING_CLIENT, str(server.address[1]), target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"receiving\n"
            assert open_files(server) == before + 20
            client.send_signal(signal.SIGKILL)
        wait_until(lambda: open_files(server) == before)
        assert other.get("/").content == b"hello"
    assert "Traceback" not in "".join(server.lines)


def test_connections_in_great_number_leave_nothing(start: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        server = start("protocol.py")
        with server.connect() as other:
            other.get("/")
            before = open_files(server)
            for way in ("silent", "partial", "served", "reset"):
                clients = [socket.create_connection(server.address) for _ in range(500)]
                for client in clients:
                    leave(client, way)
            wait_until(lambda: open_files(server) == before)
            assert other.get("/").content == b"hello"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def leave(client: socket.socket, way: str) -> None:
    """Drop a connection in one of the ways in which clients do."""
    if way == "partial":
        client.sendall(b"GET / HT")
    elif way == "served":
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(1)
    elif way == "reset":
        client.sendall(b"GET /wait/10000 HTTP/1.1\r\nHost: a\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("target", ["/", "/wait/0", "/stream/1", "/raises/not/found"])
def test_requests_in_great_number_take_no_memory(start: Start, target: str) -> None:
    server = start("protocol.py")
    batch = f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 16

    def ask(rounds: int) -> None:
        with server.connect() as client:
            for _ in range(rounds):
                client.send(batch)
                for _ in range(16):
                    client.read()

    ask(200)
    before = resident_bytes(server)
    ask(1000)
    assert resident_bytes(server) - before < 1_000_000


def test_two_hundred_thousand_requests_take_no_memory(start: Start) -> None:
    server = start("protocol.py")
    batch = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 500
    with server.connect() as client:
        client.send(batch)
        response_bytes = drain(client.socket)
        assert response_bytes % 500 == 0
        before = resident_bytes(server)
        for _ in range(400):
            client.send(batch)
            left = response_bytes
            while left:
                left -= len(take(client.socket, left))
        assert resident_bytes(server) - before < 1_000_000


def take(client: socket.socket, most: int) -> bytes:
    """Read some bytes."""
    data = client.recv(min(most, 1 << 16))
    assert data, "the connection ended"
    return data


def drain(client: socket.socket) -> int:
    """Read until nothing more comes for a while; report how much it was."""
    total = 0
    while select.select([client], [], [], 0.3)[0]:
        total += len(take(client, 1 << 16))
    return total
