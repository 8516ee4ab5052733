"""Handshakes that are slow or are none, and how connections with TLS end."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from pathlib import Path

import pytest

from support.server import Server, Start
from tls.authority import Files, SecureConnection

pytestmark = pytest.mark.slow

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture
def server(start: Start, files: Files) -> Server:
    return start("basic.py", *files.options)


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first record of a client."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_the_line_at_startup_says_that_a_unix_socket_uses_tls(
    start: Start, files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    server = start("basic.py", *files.options, "--uds", str(path))
    assert f"basic.py on unix:{path} (" in server.lines[-1]
    assert server.lines[-1].endswith(", TLS on every address)\n")


def test_plain_http_gets_a_400_that_says_so(server: Server) -> None:
    with server.connect() as connection:
        connection.send(GET + b"more")
        reply = connection.read()
        assert (reply.status, reply.is_last) == (400, True)
        sentence = "This port expects HTTPS; use https:// instead of http://."
        assert reply.content.decode() == sentence + "\n"
        assert connection.is_at_end()
    server.wait_line(rf"WARN  bolide\.error: refused 1 request with 400: {sentence}$")


def test_tls_on_a_plain_port_is_one_line(start: Start, client: ssl.SSLContext) -> None:
    server = start("basic.py")
    for _ in range(3):
        with pytest.raises(ssl.SSLError, match="wrong version number|WRONG_VERSION_NUMBER"):
            SecureConnection(server, client)
    line = r"refused 1 connection with TLS on a port without it \(see --certificate\)$"
    server.wait_line(rf"WARN  bolide\.error: {line}")
    with server.connect() as connection:
        connection.send(GET)
        assert connection.read().status == 200
    assert not any("400" in line for line in server.lines)


def test_a_handshake_that_takes_too_long_ends(
    start: Start, files: Files, client: ssl.SSLContext
) -> None:
    server = start("basic.py", *files.options, "--tls-handshake-timeout-ms", "500")
    began = time.monotonic()
    with server.connect() as silent, server.connect() as slow:
        slow.send(hello(client)[:20])
        with SecureConnection(server, client) as ready:
            assert silent.is_closed()
            assert slow.is_closed()
            assert time.monotonic() - began >= 0.5
            ready.send(GET)
            assert ready.read().status == 200


def test_silent_clients_do_not_lock_others_out(
    start: Start, files: Files, client: ssl.SSLContext
) -> None:
    server = start("basic.py", *files.options, "--tls-handshakes-max", "2")
    with server.connect() as first, server.connect() as second:
        for silent in (first, second):
            silent.send(hello(client))
            assert silent.socket.recv(1), "the server's part of the handshake"
        with SecureConnection(server, client) as ready:
            ready.send(GET)
            assert ready.read().status == 200


def test_the_end_is_announced_in_both_directions(server: Server, client: ssl.SSLContext) -> None:
    with SecureConnection(server, client) as connection:
        connection.socket.suppress_ragged_eofs = False
        connection.send(LAST)
        assert connection.read().is_last
        assert connection.socket.recv(1) == b""
    connection = SecureConnection(server, client)
    connection.send(GET)
    assert connection.read().status == 200
    # Waits for the server's close_notify.
    connection.socket.unwrap().close()


def test_an_end_without_announcement_is_an_end(server: Server, client: ssl.SSLContext) -> None:
    with SecureConnection(server, client) as connection:
        connection.send(GET)
        assert connection.read().status == 200
        plain = socket.socket(fileno=socket.dup(connection.socket.fileno()))
        with plain:
            plain.shutdown(socket.SHUT_WR)
        assert connection.socket.recv(1) == b""


def test_a_changed_record_gets_an_alert(server: Server, client: ssl.SSLContext) -> None:
    with SecureConnection(server, client) as connection:
        connection.send(GET)
        assert connection.read().status == 200
        plain = socket.socket(fileno=socket.dup(connection.socket.fileno()))
        with plain:
            plain.sendall(struct.pack("!BHH", 23, 0x0303, 40) + bytes(40))
        with pytest.raises(ssl.SSLError, match="bad record mac|BAD_RECORD_MAC"):
            connection.socket.recv(1)


def test_bytes_that_are_neither_tls_nor_http_get_an_alert(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"\0" * 100)
        alert = connection.socket.recv(100)
        assert (alert[0], alert[5]) == (21, 2)
        assert connection.is_closed()
