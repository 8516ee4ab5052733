"""Descriptors that the responses to one client take, in a process that may have few."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from conftest import APPLICATIONS
from support.client import Connection
from support.server import Server

pytestmark = pytest.mark.slow

DESCRIPTORS = 64
COUNT = 15
"""As many requests as may be pipelined beside the first one, at most."""
SIZE = 300_000
OTHERS = 15
REQUEST = b"GET /file HTTP/1.1\r\nHost: test\r\n\r\n"
LIMITED = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
from bolide.cli import main
main()
"""
TARGETS = {
    "asgi": ("files/asgi.py", "--asgi-extensions", "pathsend"),
    "wsgi": ("files/wsgi.py", "--threads", "4"),
    "wsgi, inline": ("files/wsgi.py", "--threads", "1"),
}


class Limited(Server):
    """A server that may have few descriptors."""

    program = ("-c", LIMITED, "serve")


@pytest.fixture(params=TARGETS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Serve a file that the kernel sends."""
    path = tmp_path / "sent"
    path.write_bytes(os.urandom(SIZE))
    options = (*TARGETS[request.param], "--port", "0", "--connections-max", "1000")
    server = Limited(list(options), APPLICATIONS, {"SENT_FILE": str(path)})
    yield server.wait_ready()
    server.close()


def open_files(server: Server, path: Path) -> int:
    """Count the descriptors of the file in the worker."""
    found = 0
    for link in Path(f"/proc/{server.workers()[0]}/fd").iterdir():
        try:
            found += os.readlink(link) == str(path)
        except FileNotFoundError:
            continue
    return found


def test_one_client_that_does_not_read_leaves_others_theirs(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "sent"
    with Connection(server.address, receive_buffer_bytes=4096) as slow, ExitStack() as stack:
        slow.send(REQUEST * COUNT)
        assert not slow.is_at_end()
        for _ in range(OTHERS):
            other = stack.enter_context(server.connect())
            assert other.get("/hello").content == b"hello"
            assert open_files(server, path) <= 1
        slow.socket.settimeout(20)
        for _ in range(COUNT):
            assert slow.read().content == path.read_bytes()


def test_idle_connections_leave_descriptors_for_files(server: Server, tmp_path: Path) -> None:
    content = (tmp_path / "sent").read_bytes()
    with server.connect() as early, ExitStack() as stack:
        assert early.get("/hello").content == b"hello"
        for _ in range(2 * DESCRIPTORS):
            stack.enter_context(server.connect())
        reply = early.get("/file")
        assert (reply.status, reply.content == content) == (200, True)


def test_every_connection_that_is_served_gets_its_file(server: Server, tmp_path: Path) -> None:
    content = (tmp_path / "sent").read_bytes()
    statuses: Counter[int | None] = Counter()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Connection(server.address, receive_buffer_bytes=4096))
            for _ in range(DESCRIPTORS)
        ]
        for client in clients:
            with suppress(ConnectionError):
                client.send(REQUEST)
        for client in clients:
            client.socket.settimeout(20)
            try:
                is_refused = client.is_at_end()
            except ConnectionError:
                is_refused = True
            if is_refused:
                statuses[None] += 1
                continue
            reply = client.read()
            statuses[reply.status] += 1
            assert (reply.content == content) is (reply.status == 200)
    assert set(statuses) <= {200, 503, None} and statuses[200] >= 10, statuses
