"""Where the server can be reached."""

import socket
from pathlib import Path

import pytest

from support.client import Connection
from support.server import Start, as_address

pytestmark = pytest.mark.slow


def has_ipv6() -> bool:
    """Return whether this machine can listen on ::1."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_a_unix_socket(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = start("protocol.py", "--uds", str(path))
    with Connection(str(path)) as client:
        for _ in range(2):
            assert client.get("/").content == b"hello"
            assert client.get("/wait/1").content == b"waited 1"
    assert server.address == str(path)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_ipv6(start: Start) -> None:
    server = start("protocol.py", "--bind", "[::1]:0")
    with server.connect() as client:
        assert client.get("/").content == b"hello"


def test_several_addresses_at_once(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    binds = ["--bind", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--bind", f"unix:{path}"]
    server = start("protocol.py", *binds)
    assert len(server.urls) == 3
    clients = [Connection(as_address(url)) for url in server.urls]
    for client in clients:
        with client:
            assert client.get("/").content == b"hello"
