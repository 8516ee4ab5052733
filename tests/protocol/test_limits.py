"""Limits set by options, and what a client that hits one sees."""

import pytest

from support.client import Connection
from support.server import Server, Start

pytestmark = pytest.mark.slow

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n"


@pytest.mark.parametrize(
    ("option", "value", "status", "sent"),
    [
        ("request-line-bytes-max", 100, 414, b"GET /" + b"a" * 100),
        ("header-section-bytes-max", 200, 431, REQUEST + b"A: " + b"a" * 200),
        ("field-lines-max", 5, 431, REQUEST + b"A: b\r\n" * 5),
        (
            "body-bytes-max",
            10,
            413,
            b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n",
        ),
        (
            "body-bytes-max",
            10,
            413,
            b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890",
        ),
    ],
)
def test_beyond_a_limit_is_refused_before_the_end(
    start: Start, option: str, value: int, status: int, sent: bytes
) -> None:
    server = start("protocol.py", f"--{option}", str(value))
    with server.connect() as client:
        client.send(sent)
        reply = client.read()
        assert (reply.status, reply.is_last) == (status, True)
        assert client.is_closed()
    with server.connect() as client:
        assert client.get("/").status == 200


@pytest.mark.parametrize("application", ["protocol.py", "wsgi_plain.py"])
def test_a_refusal_is_logged_with_its_limit(start: Start, application: str) -> None:
    server = start(application, "--body-bytes-max", "10")
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
        reply = client.read()
        assert reply.status == 413
        assert b"body_bytes_max" not in reply.content
    server.wait_line(
        r"WARN  bolide\.error: refused 1 request with 413: content over body_bytes_max \(10\)$"
    )


@pytest.mark.parametrize("application", ["protocol.py", "wsgi_plain.py"])
def test_a_request_for_websocket_is_served_as_a_plain_one_and_logged(
    start: Start, application: str
) -> None:
    server = start(application)
    head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {}\r\n\r\n"
    with server.connect() as client:
        for protocol in ("h2c", "WebSocket"):  # the first is no news
            client.send(head.format(protocol).encode())
            assert client.read().status == 200
    server.wait_line(
        r"WARN  bolide\.error: 1 request asked for WebSocket, "
        r"which the application does not serve, and "
        r"was served as plain HTTP$"
    )


@pytest.mark.parametrize("target", ["/read", "/read-later"])
def test_content_up_to_the_limit_is_taken(start: Start, target: str) -> None:
    server = start("protocol.py", "--body-bytes-max", "300000")
    with server.connect() as client:
        head = f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"
        client.send(head.encode() + b"x" * 300_000)
        assert client.read().content == b"300000"


def test_connections_over_the_limit_are_refused_with_503(start: Start) -> None:
    server = start("protocol.py", "--connections-max", "2")
    with server.connect() as first, server.connect() as second:
        assert first.get("/").status == second.get("/").status == 200
        with server.connect() as third:
            reply = third.get("/")
            assert (reply.status, reply.get("retry-after")) == (503, "1")
            assert reply.is_last
            assert third.is_closed()
        assert first.get("/").status == second.get("/").status == 200


def test_a_full_process_serves_those_it_has(start: Start) -> None:
    """Accepting rests while there is no descriptor left, and goes on by itself."""
    server = start("protocol.py")
    worker = server.workers()[0]
    with server.connect() as served:
        served.get("/")
        clients = limited(server, worker)
        assert served.get("/").status == 200
        for client in clients[:5]:
            client.socket.close()
        for client in clients[5:]:
            assert client.get("/").status == 200
            client.socket.close()


def limited(server: Server, worker: int) -> list[Connection]:
    """Let a worker have five descriptors more; open ten connections."""
    import os
    import resource

    limit = max(int(name) for name in os.listdir(f"/proc/{worker}/fd")) + 6
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (limit, limit))
    return [server.connect() for _ in range(10)]
