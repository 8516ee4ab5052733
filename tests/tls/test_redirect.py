"""`--redirect-to-https`: requests without TLS get 308 and the https URL."""

from __future__ import annotations

import re
import signal
import ssl

import pytest

from bolide.server.redirect import Redirect
from support.client import Connection
from support.management import Managed
from support.server import Server, Start, as_address
from tls.authority import Files, SecureConnection

pytestmark = pytest.mark.slow


@pytest.fixture
def server(start: Start, files: Files) -> Server:
    options = (*files.options, "--redirect-to-https", "127.0.0.1:0", "--workers", "2")
    return start("basic.py", *options)


def plain(server: Server) -> Connection:
    """Connect where requests are redirected."""
    lines = [re.search(r"redirecting (\S+) to https", line) for line in server.lines]
    [match] = [match for match in lines if match]
    return Connection(as_address(match[1]))


def test_they_have_a_part_of_the_memory(start: Start, files: Files) -> None:
    options = (*files.options, "--redirect-to-https", "127.0.0.1:0", "--memory-max", "64M")
    assert Managed(start, "basic.py", *options).metrics()["bolide_held_max_bytes"] == 56 << 20


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("shop.test", "shop.test"),
        ("shop.test:80", "shop.test"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[::1]:8080", "[::1]"),
    ],
)
def test_the_target_and_the_host_are_kept(server: Server, host: str, shown: str) -> None:
    port = server.address[1]
    with plain(server) as connection:
        for method, content in (("GET", b""), ("POST", b"abc")):
            head = f"{method} /a%20b/?c=%2F HTTP/1.1\r\nHost: {host}\r\n"
            if content:
                head += f"Content-Length: {len(content)}\r\n"
            connection.send(f"{head}\r\n".encode() + content)
            reply = connection.read()
            assert reply.status == 308
            assert reply.get("location") == f"https://{shown}:{port}/a%20b/?c=%2F"
            assert reply.content == b"This server requires https.\n"


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n",
        "GET / HTTP/1.1\r\nHost: \r\n",
        "GET / HTTP/1.0\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    ],
)
def test_a_request_without_a_valid_host_is_refused(server: Server, head: str) -> None:
    with plain(server) as connection:
        connection.send(f"{head}\r\n".encode())
        reply = connection.read()
        assert reply.status == 400
        assert reply.get("location") is None


def test_it_stops_with_the_server(server: Server, client: ssl.SSLContext) -> None:
    with plain(server) as idle, SecureConnection(server, client) as connection:
        assert idle.get("/").status == 308
        assert connection.get("/").status == 200
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert "closing" not in server.errors


def test_the_usual_port_is_left_out() -> None:
    scope = {"headers": [(b"host", b"a.test:80")], "raw_path": b"/x", "query_string": b""}
    assert Redirect(443)._response(scope)[1] == [(b"location", b"https://a.test/x")]


def test_the_port_may_be_another_one(start: Start, files: Files) -> None:
    options = (*files.options, "--redirect-to-https", "127.0.0.1:0", "--https-port")
    for port, shown in (("8443", ":8443"), ("443", "")):
        with plain(start("basic.py", *options, port)) as connection:
            connection.send(b"GET /x HTTP/1.1\r\nHost: shop.test:8080\r\n\r\n")
            assert connection.read().get("location") == f"https://shop.test{shown}/x"


def test_a_client_that_uses_tls_there_is_named(server: Server, client: ssl.SSLContext) -> None:
    with plain(server) as connection, pytest.raises(ssl.SSLError):
        client.wrap_socket(connection.socket, server_hostname="localhost")
    text = "refused 1 connection with TLS at an address of --redirect-to-https, which is for plain "
    server.wait_line(f"{text}HTTP$")


def test_it_works_inside_a_loop_and_for_wsgi(start: Start, files: Files) -> None:
    options = (*files.options, "--redirect-to-https", "127.0.0.1:0")
    for target in ("wsgi_plain.py", "basic.py"):
        for loop in ("asyncio", "uvloop"):
            with plain(start(target, *options, "--loop", loop)) as connection:
                assert connection.get("/").status == 308
