"""The PROXY protocol: whose a connection is, and which connections are closed."""

from __future__ import annotations

import re
import socket
import ssl
import tomllib
from pathlib import Path
from typing import Any

import pytest

from proxies.conftest import ON_INTERFACES, Serve, asked
from support.client import Connection
from support.h2 import Client
from support.server import Server, Start, command
from support.websocket_carriers import SECURE, secured

pytestmark = pytest.mark.slow

VECTORS = Path(__file__).parents[2] / "vectors" / "proxy-protocol"
LINE = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n"
BINARY = bytes.fromhex("0d0a0d0a000d0a515549540a 2111000c cb007107 c6336401 1267 01bb")
LOCAL = bytes.fromhex("0d0a0d0a000d0a515549540a 20000000")
REQUEST = b"GET /a HTTP/1.1\r\nHost: test\r\n\r\n"
CLIENT = ["203.0.113.7", 4711]


def octets(sent: str | list[dict[str, Any]]) -> bytes:
    """Return the octets of a case."""
    if isinstance(sent, str):
        return sent.encode()
    return b"".join(bytes.fromhex(piece["hex"]) * piece.get("times", 1) for piece in sent)


def read_cases() -> list[Any]:
    """Return the vectors."""
    return [
        pytest.param(case, id=case["id"])
        for path in sorted(VECTORS.glob("*.toml"))
        for case in tomllib.loads(path.read_text())["header"]
    ]


@pytest.fixture(scope="module")
def server() -> Any:
    """Start one server for all cases, which expects the PROXY protocol."""
    folder = Path(__file__).parents[1] / "applications"
    arguments = ["forwarded/on_native.py", "--port", "0", "--proxy-protocol", "--h2c"]
    running = Server(arguments, folder).wait_ready()
    yield running
    running.close()


@pytest.mark.parametrize("case", read_cases())
def test_every_vector(server: Server, case: dict[str, Any]) -> None:
    sent = octets(case["sent"])
    for cut in (0, 1, len(sent) // 2, len(sent) - 1):
        with server.connect() as client:
            own = list(client.socket.getsockname())
            send(client, sent[:cut])
            send(client, sent[cut:] + REQUEST)
            if "refused" in case:
                assert client.is_closed(), case["why"]
                continue
            seen = client.read().json()
            host, _, port = case.get("client", "").rpartition(":")
            expected = [host.strip("[]"), int(port)] if host else own
            assert seen["client"] == (None if case.get("unix") else expected), case["why"]
            # The next request is that of the same client.
            assert asked(client)["client"] == seen["client"]
            if {"own", "unknown"} & case.keys():
                # Only of its own requests does a trusted proxy know who sent them.
                own = ["198.51.100.9", 0] if "own" in case else own
                assert asked(client, "X-Forwarded-For: 198.51.100.9")["client"] == own, case["why"]


def send(client: Connection, data: bytes) -> None:
    """Send, unless the server has closed already."""
    try:
        client.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def test_it_is_said_at_startup_and_refusals_are_counted(start: Start) -> None:
    server = start("forwarded/on_native.py", "--proxy-protocol")
    line = r"only 127\.0\.0\.0/8, ::1 and UNIX sockets may connect, with the PROXY protocol; X-Forw"
    assert any(re.search(line, each) for each in server.lines)
    with server.connect() as client:
        send(client, REQUEST)
        assert client.is_closed()
    reason = (
        r"closed 1 connection without a valid PROXY header, the last of 127\.0\.0\.1: it starts "
    )
    server.wait_line(reason)


def test_peers_that_are_not_trusted_are_closed(start: Start) -> None:
    server = start("forwarded/on_native.py", "--proxy-protocol", "--trusted-proxies", "192.0.2.1")
    with server.connect() as client:
        send(client, LINE + REQUEST)
        assert client.is_closed()
    server.wait_line(r"the last of 127\.0\.0\.1: --trusted-proxies does not name it")


def test_a_silent_peer_is_closed(start: Start) -> None:
    server = start("forwarded/on_native.py", "--proxy-protocol", "--header-timeout-ms", "300")
    for sent in (b"", LINE[:20], BINARY[:13], LINE):
        with server.connect() as client:
            send(client, sent)
            assert client.is_closed()


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_each_interface_knows_the_client(serve: Serve, name: str) -> None:
    server = serve(name, "--proxy-protocol")
    with server.connect() as client:
        client.send(BINARY)
        seen = asked(client)
        assert seen["client"] == CLIENT
        if name == "on_asgi":
            assert seen["server"] == ["198.51.100.1", 443]
        if name == "on_wsgi":
            assert (seen["SERVER_NAME"], seen["SERVER_PORT"]) == ("198.51.100.1", "443")


def test_fields_of_the_client_are_not_believed(serve: Serve) -> None:
    server = serve("on_native", "--proxy-protocol")
    with server.connect() as client:
        client.send(LINE)
        assert asked(client, "X-Forwarded-For: 198.51.100.9")["client"] == CLIENT
    # Those of a proxy before the one that speaks the protocol are, if it is trusted too.
    trusted = ("--trusted-proxies", "127.0.0.1,203.0.113.0/24")
    server = serve("on_native", "--proxy-protocol", *trusted)
    with server.connect() as client:
        client.send(LINE)
        assert asked(client, "X-Forwarded-For: 198.51.100.9")["client"] == ["198.51.100.9", 0]


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
@pytest.mark.parametrize("header", [LINE, BINARY, LOCAL])
def test_it_precedes_tls(serve: Serve, protocol: str, header: bytes) -> None:
    server = serve("on_native", "--proxy-protocol", *SECURE)
    with server.connect() as client:
        own = list(client.socket.getsockname())
        client.send(header)
        secured(client, protocol)
        if protocol == "h2":
            message = Client(client, scheme="https").request(1, "/a")
            assert message.status == 200
            return
        seen = asked(client)
        assert seen["client"] == (own if header == LOCAL else CLIENT)
        assert seen["scheme"] == "https"


def test_tls_without_it_is_closed(serve: Serve) -> None:
    server = serve("on_native", "--proxy-protocol", *SECURE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with server.connect() as client, pytest.raises((OSError, ssl.SSLError)):
        context.wrap_socket(client.socket)
    server.wait_line("without a valid PROXY header")


def test_it_arrives_octet_by_octet(server: Server) -> None:
    for header in (LINE, BINARY):
        with server.connect() as client:
            for place in range(len(header)):
                client.send(header[place : place + 1])
            assert asked(client)["client"] == CLIENT


def test_http2_with_prior_knowledge_follows_it(server: Server) -> None:
    with server.connect() as connection:
        connection.send(LINE)
        message = Client(connection).request(1, "/a")
        assert b"203.0.113.7" in bytes(message.content)


def test_a_unix_socket_is_a_trusted_peer(start: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    server = start("forwarded/on_native.py", "--uds", path, "--proxy-protocol")
    with server.connect() as client:
        client.send(BINARY[:7])
        client.send(BINARY[7:])
        assert asked(client)["client"] == CLIENT
    with socket.socket(socket.AF_UNIX) as closed:
        closed.connect(path)  # and no more: nothing is logged of it
    with server.connect() as client:
        client.send(LOCAL)
        assert asked(client)["client"] is None


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for options, text in (
        (("--trusted-proxies", "none"), "proxy_protocol needs trusted_proxies"),
        (
            ("--redirect-to-https", "127.0.0.1:0", *SECURE),
            "proxy_protocol does not go with redirect_to_https",
        ),
    ):
        arguments = ("serve", "app.py", "--port", "0", "--proxy-protocol", *options)
        code, _, errors = command(*arguments, cwd=tmp_path)
        assert code == 2
        assert len(errors.splitlines()) == 1, errors
        assert text in errors
