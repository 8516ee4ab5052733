"""Clients that do not read: threads do not wait for them while other requests need a thread."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support.client import Connection
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

THREADS = 8
BLOCK_BYTES, COUNT = 65_536, 160
"""10 MB: more than sockets hold."""
RECEIVE_BUFFER_BYTES = 65_536
PROMPT_S = 8
APPLICATION = ("wsgi/streaming.py", "--threads", str(THREADS))


def content() -> bytes:
    """Return what the application streams."""
    return b"".join(number.to_bytes(4, "big") * (BLOCK_BYTES // 4) for number in range(COUNT))


@contextmanager
def stalled(
    server: Server, kind: str, count: int = THREADS, query: str = ""
) -> Iterator[list[Connection]]:
    """Let clients ask for more than they read, and wait until each response has started."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = Connection(server.address, receive_buffer_bytes=RECEIVE_BUFFER_BYTES)
            clients.append(stack.enter_context(client))
            client.send(f"GET /{kind}/{COUNT}{query} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
            assert not client.is_at_end()
        yield clients


def read_all(clients: list[Connection]) -> None:
    """Read every response to its end, and compare each byte."""
    expected = content()
    for client in clients:
        client.socket.settimeout(20)
        assert client.read().content == expected


def spool_files(server: Server) -> int:
    """Count the worker's open files without a name."""
    count = 0
    for link in Path(f"/proc/{server.workers()[0]}/fd").iterdir():
        with suppress(FileNotFoundError):
            path = os.readlink(link)
            count += path.endswith("(deleted)") and "memfd" not in path
    return count


@pytest.mark.parametrize("kind", ["chunked", "known"])
def test_a_request_is_served_while_every_thread_has_a_client_that_does_not_read(
    start: Start, tmp_path: Path, kind: str
) -> None:
    server = start(*APPLICATION, "--spool-directory", str(tmp_path))
    with stalled(server, kind) as clients:
        began = time.monotonic()
        for _ in range(THREADS):
            with server.connect() as other:
                assert other.get("/hello").content == b"hello"
            assert 1 <= spool_files(server) <= THREADS
        assert time.monotonic() - began < PROMPT_S
        assert not list(tmp_path.iterdir()), "the files have names"
        read_all(clients)
        wait_until(lambda: spool_files(server) == 0)
        assert clients[0].get("/hello").content == b"hello"


def test_a_thread_that_spooled_and_works_on_does_not_stop_others_from_spooling(
    start: Start, tmp_path: Path
) -> None:
    threads = 3
    pipes = [tmp_path / str(number) for number in range(threads)]
    server = start("wsgi/streaming.py", "--threads", str(threads))
    with ExitStack() as stack:
        clients = []
        for pipe in pipes:
            os.mkfifo(pipe)
            clients += stack.enter_context(stalled(server, "held", 1, f"?{pipe}"))
        other = stack.enter_context(server.connect())
        other.send(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
        # The first of them spools and works on, and so does the second.
        wait_until(lambda: spool_files(server) == threads)
        for pipe in pipes:
            pipe.open("wb").close()
        assert other.read().content == b"hello"
        read_all(clients)


def test_without_another_request_nothing_is_spooled(start: Start, tmp_path: Path) -> None:
    server = start(*APPLICATION, "--spool-directory", str(tmp_path))
    with stalled(server, "known", THREADS - 1) as clients:
        with server.connect() as other:
            assert other.get("/hello").content == b"hello"
        assert spool_files(server) == 0
        read_all(clients)


def test_one_thread_waits_for_no_client(start: Start) -> None:
    server = start("wsgi/streaming.py", "--threads", "1")
    with stalled(server, "chunked") as clients:
        with server.connect() as other:
            assert other.get("/hello").content == b"hello"
        read_all(clients)


def test_a_full_disk_lets_threads_wait_and_is_reported_once(start: Start, tmp_path: Path) -> None:
    server = start(*APPLICATION, "--spool-directory", str(tmp_path))
    (worker,) = server.workers()
    most = 3 * BLOCK_BYTES + 1000
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (most, most))
    with stalled(server, "chunked") as clients, server.connect() as other:
        other.send(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line(r"WARN.*cannot write responses to temporary files in .*File too large")
        read_all(clients)
        assert other.read().content == b"hello"
    assert server.workers() == [worker]
    assert len([line for line in server.lines if "temporary files" in line]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--spool-bytes-max", "200000"),
        ("--spool-total-bytes-max", "200000"),
        ("--spool-directory", "off"),
    ],
)
def test_beyond_the_limit_a_thread_waits_for_its_client(
    start: Start, options: tuple[str, str]
) -> None:
    server = start(*APPLICATION, *options)
    with stalled(server, "known") as clients, server.connect() as other:
        other.send(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
        read_all(clients)
        assert other.read().content == b"hello"
    assert not [line for line in server.lines if "WARN" in line]


def test_a_client_that_leaves_frees_its_file(start: Start, tmp_path: Path) -> None:
    server = start(*APPLICATION, "--spool-directory", str(tmp_path))
    with stalled(server, "chunked"), server.connect() as other:
        assert other.get("/hello").content == b"hello"
    wait_until(lambda: spool_files(server) == 0)
    with server.connect() as other:
        assert other.get("/hello").content == b"hello"
