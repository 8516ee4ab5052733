"""Back-pressure both ways (points 16, 19 and 21), by what the worker holds meanwhile."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

import pytest

from asgi.held import Seen, release, wait_held
from support.client import Connection
from support.loops import Serving
from support.request import head
from support.server import Server
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

CHUNK_BYTES = 65_536
CONTENT_BYTES = 1000 * CHUNK_BYTES
OPTIONS = ("--body-bytes-max", str(CONTENT_BYTES))
ACCEPTED_BYTES_MAX = 16_000_000
"""What the kernel's buffers on both sides and the server's may take; far less than is sent."""
HELD_BYTES_MAX = 2_000_000
SOCKET_BUFFER_BYTES = 65_536
STUCK_S = 0.3


@pytest.fixture(scope="module")
def server(serving: Serving) -> Server:
    """Serve an application that may be sent much."""
    return serving("asgi/flow.py", *OPTIONS)


def resident_bytes(server: Server) -> int:
    """Report how much memory the worker has in use."""
    fields = Path(f"/proc/{server.workers()[0]}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def connect(server: Server) -> Connection:
    """Connect with small buffers."""
    client = server.connect()
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        client.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return client


def stuck_flood(server: Server, client: Connection, seen: Seen, path: str) -> int:
    """Ask for a flood and read nothing; give how much was accepted when it got stuck."""
    with server.connect() as other:
        other.get("/seen")
    client.send(head("GET", path))
    before = resident_bytes(server)
    wait_until(lambda: seen("accepted") > 0)
    assert resident_bytes(server) - before < HELD_BYTES_MAX
    accepted: int = seen("accepted")
    assert accepted < ACCEPTED_BYTES_MAX
    return accepted


def forget(server: Server) -> None:
    """Let the application forget how much was accepted."""
    with server.connect() as client:
        client.get("/forget")


def test_16_and_28_a_client_that_goes_wakes_the_sender_and_the_watcher(
    server: Server, seen: Seen
) -> None:
    forget(server)
    with connect(server) as client:
        stuck_flood(server, client, seen, "/flood")
    wait_until(lambda: seen("stuck") == ["ClientDisconnected", "http.disconnect"])
    assert "Traceback" not in "".join(server.lines)


def test_21_a_client_that_does_not_read_stops_send_and_reading_lets_it_go_on(
    server: Server, seen: Seen
) -> None:
    forget(server)
    with connect(server) as client:
        accepted = stuck_flood(server, client, seen, "/flood/ends")
        assert seen("went on") == 0
        assert len(client.read().content) == accepted + 65536 + len(b"the end")
        assert seen("went on") == 1
        assert client.get("/seen").status == 200


def test_21_a_send_that_is_cancelled_while_it_waits_leaves_a_complete_response(
    server: Server, seen: Seen
) -> None:
    forget(server)
    with connect(server) as client:
        accepted = stuck_flood(server, client, seen, "/flood/cancels")
        assert len(client.read().content) == accepted + 65536 + len(b"the end")
        assert client.get("/seen").status == 200


def test_21_so_does_a_send_from_another_threads_loop(server: Server, seen: Seen) -> None:
    forget(server)
    with connect(server) as client:
        accepted = stuck_flood(server, client, seen, "/elsewhere")
        assert len(client.read().content) == accepted + 65536 + len(b"the end")
        assert client.get("/seen").status == 200


def test_21_a_client_that_reads_gets_all_that_another_threads_loop_sends(server: Server) -> None:
    with server.connect() as client:
        assert len(client.get("/parts_elsewhere/200").content) == 200 * 65536 + len(b"the end")


def test_28_a_client_that_goes_wakes_a_sender_in_another_threads_loop(
    server: Server, seen: Seen
) -> None:
    forget(server)
    with connect(server) as client:
        stuck_flood(server, client, seen, "/elsewhere")
    wait_until(lambda: seen("stuck") == ["ClientDisconnected"])
    assert "Traceback" not in "".join(server.lines)


def framed(coding: str) -> tuple[str, memoryview]:
    """Return the field that announces content, and its bytes on the wire."""
    content = bytes(CONTENT_BYTES)
    if coding == "length":
        return f"Content-Length: {CONTENT_BYTES}", memoryview(content)
    chunk = b"%x\r\n%s\r\n" % (CHUNK_BYTES, bytes(CHUNK_BYTES))
    chunks = chunk * (CONTENT_BYTES // CHUNK_BYTES) + b"0\r\n\r\n"
    return "Transfer-Encoding: chunked", memoryview(chunks)


def send_until_stuck(client: Connection, data: memoryview) -> int:
    """Send until nothing is taken for a while; give how much was."""
    client.socket.setblocking(False)
    sent = 0
    while select.select([], [client.socket], [], STUCK_S)[1]:
        sent += client.socket.send(data[sent : sent + CHUNK_BYTES])
    client.socket.settimeout(PATIENCE_S)
    return sent


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_19_an_application_that_does_not_receive_stops_its_client(
    server: Server, seen: Seen, coding: str
) -> None:
    held = seen("held")
    field, data = framed(coding)
    with connect(server) as client:
        client.send(head("POST", "/count", field))
        wait_held(seen, held)
        before = resident_bytes(server)
        sent = send_until_stuck(client, data)
        assert resident_bytes(server) - before < HELD_BYTES_MAX
        assert sent < ACCEPTED_BYTES_MAX
        release(server)
        client.send(data[sent:])
        assert client.read().content == b"%d" % CONTENT_BYTES
        assert resident_bytes(server) - before < HELD_BYTES_MAX
