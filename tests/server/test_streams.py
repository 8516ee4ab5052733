"""Standard output and standard error of every kind: none of them stops, ends or hangs a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from support.client import Connection
from support.server import children, clean_environ, kill
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = """
import logging, os, sys
from bolide import App

app = App()
logger = logging.getLogger("bolide")

@app.get("/")
def hello(request):
    print("kept in the buffer of standard output")
    return str(os.getpid())

@app.get("/log/{lines:int}")
def log(request, lines):
    for number in range(lines):
        logger.warning("line %d %s", number, "x" * 100)
    print("unbuffered", file=sys.stderr)
    return "logged"
"""
UNTIL_S = 20


def closed() -> int:
    """Return a descriptor that is closed for the program: see `Running`."""
    return -1


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def without_reader() -> int:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    return write_fd


def stalled() -> int:
    """Return a pipe that is full, and that nobody reads; its reading end stays open."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    try:
        while os.write(write_fd, bytes(65536)):
            pass
    except BlockingIOError:
        os.set_blocking(write_fd, True)
    READERS.append(read_fd)
    return write_fd


def stalled_socket() -> int:
    """Return what systemd provides: a stream socket to the journal."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    try:
        while writer.send(bytes(65536)):
            pass
    except BlockingIOError:
        writer.setblocking(True)
    READERS.append(reader.detach())
    return writer.detach()


READERS: list[int] = []
KINDS = [closed, full_disk, without_reader, stalled, stalled_socket]


class Running:
    """`bolide serve` with two workers on a UNIX socket, and streams of one's choice."""

    def __init__(self, cwd: Path, *, stdout: int, stderr: int) -> None:
        (cwd / "app.py").write_text(APP)
        self.path = cwd / "socket"
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(str(cwd / "notices"))
        self.notices.settimeout(UNTIL_S)
        close = [number for number, fd in ((1, stdout), (2, stderr)) if fd == -1]
        program = [sys.executable, "-m", "bolide", "serve", "app:app"]
        options = ["--bind", f"unix:{self.path}", "--workers", "2"]
        self.process = subprocess.Popen(
            [*program, *options],
            cwd=cwd,
            env={
                **clean_environ(),
                "PYTHONUNBUFFERED": "",
                "NOTIFY_SOCKET": str(cwd / "notices"),
            },
            stdin=subprocess.DEVNULL,
            stdout=stdout if stdout >= 0 else subprocess.DEVNULL,
            stderr=stderr if stderr >= 0 else subprocess.DEVNULL,
            preexec_fn=lambda: [os.close(fd) for fd in close] and None,
        )

    def wait_ready(self) -> Running:
        """Wait until the supervisor says that it has started, and both workers have served."""
        with self.notices:
            while b"READY=1" not in self.notices.recv(4096):
                pass
        served: set[int] = set()
        wait_until(lambda: len(self.workers()) == 2 and self.serves(served) >= set(self.workers()))
        return self

    def serves(self, served: set[int]) -> set[int]:
        """Add the workers that serve requests now; connections are spread among them."""
        assert self.process.poll() is None
        with ExitStack() as clients, suppress(FileNotFoundError, ConnectionRefusedError):
            for _ in range(8):
                client = clients.enter_context(Connection(str(self.path)))
                served.add(int(client.get("/").content))
        return served

    def workers(self) -> list[int]:
        return children(self.process.pid)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []
    fds: list[int] = []

    def begin(**streams: int) -> Running:
        fds.extend(streams.values())
        started.append(Running(tmp_path, **streams))
        return started[-1].wait_ready()

    yield begin
    for each in started:
        if each.process.poll() is None:
            for pid in (each.process.pid, *each.workers()):
                kill(pid)
        each.process.wait(timeout=UNTIL_S)
    for fd in [*fds, *READERS]:
        if fd >= 0:
            os.close(fd)
    READERS.clear()


@pytest.fixture
def null() -> Iterator[int]:
    with open(os.devnull, "w") as stream:
        yield os.dup(stream.fileno())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["stdout", "stderr"])
def test_worker_that_ends_harms_no_sibling(
    serve: Callable[..., Running], null: int, which: str, kind: Callable[[], int]
) -> None:
    streams = {"stdout": null, "stderr": os.dup(null), which: kind()}
    server = serve(**streams)
    first, second = server.workers()
    os.kill(first, signal.SIGTERM)
    wait_until(lambda: first not in server.workers() and len(server.workers()) == 2)
    assert second in server.workers()
    assert server.path.is_socket()
    assert server.serves(set())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=UNTIL_S) == 0
    assert not server.path.exists()


@pytest.mark.parametrize("kind", [stalled, stalled_socket])
def test_lines_that_nobody_reads_are_dropped_and_counted(
    serve: Callable[..., Running], null: int, kind: Callable[[], int]
) -> None:
    server = serve(stdout=null, stderr=kind())
    for _ in range(2):  # more than any buffer
        with Connection(str(server.path)) as client:
            assert client.get("/log/4000").content == b"logged"
    received = bytearray()
    wait_until(lambda: has_count(READERS[-1], received))
    assert b"line 0 x" in received
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=UNTIL_S) == 0


def has_count(fd: int, received: bytearray) -> bool:
    """Read what is there; return whether the count of dropped lines has come."""
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        received += os.read(fd, 1 << 20)
    return b"line(s) dropped: standard error was not read\n" in received


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_stalled_standard_error_holds_no_stop(
    serve: Callable[..., Running], null: int, number: signal.Signals
) -> None:
    server = serve(stdout=null, stderr=stalled())
    began = time.monotonic()
    server.process.send_signal(number)
    assert server.process.wait(timeout=UNTIL_S) == (1 if number == signal.SIGQUIT else 0)
    assert time.monotonic() - began < UNTIL_S / 2
