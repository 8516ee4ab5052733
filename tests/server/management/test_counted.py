"""What is counted of connections, TLS, HTTP/2, WebSockets, threads and the access log."""

from __future__ import annotations

import fcntl
import os
import socket
import ssl
import struct
from pathlib import Path

import pytest

from support.client import Connection
from support.h2 import Client
from support.management import Managed
from support.server import Start
from support.waiting import wait_until
from support.websocket import close_frame, connect, text

pytestmark = pytest.mark.slow

NONE = 'bolide_http_requests_total{method="GET",status="none"}'
GATED = """
import sys, threading

gate = threading.Event()

def app(environ, start_response):
    if environ["PATH_INFO"] == "/open":
        gate.set()
    else:
        print("called", file=sys.stderr, flush=True)
        gate.wait()
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
"""


def counted(managed: Managed, name: str, value: float) -> None:
    """Wait until a number has a value."""
    wait_until(lambda: managed.metrics()[f"bolide_{name}"] == value)


def reset(client: Connection) -> None:
    """Leave, so that the server notices it at once."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def test_websockets_and_their_messages(start: Start) -> None:
    managed = Managed(start, "sockets/native.py")
    with connect(managed.server) as one, connect(managed.server) as other:
        for each in (one, other):
            each.open("/echo")
        counted(managed, "websockets", 2)
        for content in ("a", "b" * 1000):
            one.say(content)
            assert one.frame() == text(content)
        counted(managed, 'websocket_messages_total{direction="received"}', 2)
        counted(managed, 'websocket_messages_total{direction="sent"}', 2)
        one.send(close_frame())
        assert one.frame()
        counted(managed, "websockets", 1)
    counted(managed, "websockets", 0)
    metrics = managed.metrics()
    assert metrics["bolide_websockets_opened_total"] == 2
    assert metrics['bolide_http_requests_total{method="GET",status="1xx"}'] == 2


def test_a_published_message_counts_for_each_receiver(start: Start) -> None:
    managed = Managed(start, "sockets/native.py")
    with connect(managed.server) as one, connect(managed.server) as other:
        for each in (one, other):
            each.open("/topics/news")
            assert each.frame() == text("subscribed")
        counted(managed, 'websocket_messages_total{direction="sent"}', 2)
        with managed.server.connect() as client:
            client.get("/publish/news/hello")
        for each in (one, other):
            assert each.frame() == text("hello")
        counted(managed, 'websocket_messages_total{direction="sent"}', 4)


def test_streams_of_http2(start: Start) -> None:
    managed = Managed(start, "basic.py", "--h2c")
    with Client(managed.server.connect()) as client:
        for stream in (1, 3, 5):
            assert client.request(stream, "/slow/1" if stream == 3 else "/").status == 200
        counted(managed, "http2_streams_total", 3)
    assert managed.metrics()['bolide_http_requests_total{method="GET",status="2xx"}'] == 3
    assert managed.metrics()["bolide_http_request_duration_seconds_count"] == 3


def test_handshakes_that_complete_and_that_fail(start: Start, tmp_path: Path) -> None:
    managed = Managed(start, "basic.py", "--certificate", "self-signed")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(managed.server.address) as plain:
        with context.wrap_socket(plain) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert secure.recv(15) == b"HTTP/1.1 200 OK"
    with managed.server.connect() as leaving:
        leaving.send(b"\x16\x03\x01")
    with managed.server.connect() as plain_http:
        plain_http.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert plain_http.read().status == 400
    counted(managed, 'tls_handshakes_total{result="failed"}', 2)
    counted(managed, 'tls_handshakes_total{result="completed"}', 1)


def test_connections_that_are_refused(start: Start) -> None:
    managed = Managed(start, "basic.py", "--connections-max", "1")
    with managed.server.connect() as client:
        client.send(b"GET /slow/60000 HTTP/1.1\r\nHost: test\r\n\r\n")
        managed.server.wait_line("in flight")
        with managed.server.connect() as refused:
            assert refused.read().status == 503
    counted(managed, 'connections_refused_total{cause="limit"}', 1)
    counted(managed, "connections_accepted_total", 2)


def test_a_client_that_leaves_before_its_response(start: Start) -> None:
    managed = Managed(start)
    client = managed.server.connect()
    client.send(b"GET /slow/60000 HTTP/1.1\r\nHost: test\r\n\r\n")
    managed.server.wait_line("in flight")
    reset(client)
    counted(managed, NONE.removeprefix("bolide_"), 1)
    assert managed.metrics()["bolide_http_request_duration_seconds_count"] == 0


@pytest.mark.parametrize("is_mounted", [False, True])
def test_requests_that_wait_for_a_thread(start: Start, tmp_path: Path, is_mounted: bool) -> None:
    (tmp_path / "gated.py").write_text(GATED)
    (tmp_path / "mounting.py").write_text(
        "import bolide, gated\napp = bolide.App()\napp.mount('/', gated.app)\n"
    )
    target = "mounting.py" if is_mounted else "gated.py"
    managed = Managed(start, target, "--threads", "2", cwd=tmp_path)
    waiting = [managed.server.connect() for _ in range(2)]
    for each in waiting:
        each.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        managed.server.wait_line("called")
    for _ in range(3):
        waiting.append(managed.server.connect())
        waiting[-1].send(b"GET /open HTTP/1.1\r\nHost: test\r\n\r\n")
    counted(managed, "requests_waiting", 3)
    reset(waiting.pop())
    counted(managed, "requests_waiting", 2)
    os.kill(managed.status()["workers"][0]["pid"], 9)
    counted(managed, "requests_waiting", 0)
    for each in waiting:
        each.socket.close()


def test_lines_of_a_log_that_cannot_be_written(start: Start) -> None:
    managed = Managed(start, "basic.py", "--access-log", "/dev/full")
    with Connection(managed.server.address) as client:
        for _ in range(3):
            assert client.get("/").status == 200
    wait_until(lambda: managed.metrics()["bolide_access_log_lines_dropped_total"] == 3)
    managed.server.wait_line(r" WARN  bolide.error: the access log cannot be written: No space")


def test_lines_of_a_log_that_nobody_reads(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        managed = Managed(start, "basic.py", "--access-log", str(path))
        name = "bolide_access_log_lines_dropped_total"
        requests = f"GET /{'a' * 4000} HTTP/1.1\r\nHost: test\r\n\r\n".encode() * 200
        with Connection(managed.server.address) as client:
            while managed.metrics()[name] == 0:
                client.send(requests)
                for _ in range(200):
                    client.read()
    finally:
        os.close(reader)
