"""Connections that are handed to a server of `_core` instead of being accepted by it."""

from __future__ import annotations

import asyncio
import socket
import ssl

from bolide import App, Request
from bolide._core import Server, TlsConfig
from bolide.config.settings import resolve
from bolide.interface import application
from tls.authority import Files

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
PATIENCE_S = 20.0


def scheme(request: Request) -> str:
    """Respond with the scheme."""
    return request.scheme


def fetch(connection: socket.socket, client: ssl.SSLContext) -> bytes:
    """Read the response to a request over TLS."""
    connection.settimeout(PATIENCE_S)
    with client.wrap_socket(connection, server_hostname="localhost") as secure:
        secure.sendall(REQUEST)
        received = b""
        while part := secure.recv(65_536):
            received += part
        return received


def test_a_server_with_certificates_uses_them_for_what_it_is_given(
    files: Files, client: ssl.SSLContext
) -> None:
    app = App()
    app.get("/")(scheme)
    settings = resolve({})
    pair = (files.certificate.read_bytes(), files.key.read_bytes(), None)
    options = settings.server_options(None) | {"tls": TlsConfig([pair], protocols=["http/1.1"])}
    server = Server(application(app, "test:app", settings).core(), options)
    ours, theirs = socket.socketpair()

    async def main() -> bytes:
        running = asyncio.get_running_loop()
        server.attach(running, own_selector=False)
        server.adopt(theirs.fileno())
        received = await running.run_in_executor(None, fetch, ours, client)
        server.stop()
        return received

    with ours, theirs, asyncio.Runner() as runner:
        received = runner.run(main())
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n\r\nhttps")
