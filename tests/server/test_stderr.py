"""The stream that never waits: what it keeps, drops and counts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.server import stderr
from support.client import Connection
from support.server import children, clean_environ
from support.waiting import wait_until

pytestmark = pytest.mark.slow

COUNT = b"bolide: %d line(s) dropped: standard error was not read\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    fds = os.pipe()
    os.set_blocking(fds[0], False)
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.fixture
def stream(pipe: tuple[int, int]) -> Iterator[stderr.StandardError]:
    made = stderr.StandardError(pipe[1])
    yield made
    made.end()


def read_all(fd: int) -> bytes:
    found = bytearray()
    try:
        while data := os.read(fd, 1 << 16):
            found += data
    except BlockingIOError:
        pass
    return bytes(found)


def test_what_waits_keeps_its_order(pipe: tuple[int, int], stream: stderr.StandardError) -> None:
    lines = [b"%06d %s\n" % (number, b"x" * 100) for number in range(2000)]
    for line in lines:
        assert stream.write(line) == len(line)
    received = b""
    while not stream.retry():
        received += read_all(pipe[0])
    assert received + read_all(pipe[0]) == b"".join(lines)


def test_what_is_dropped_is_counted(pipe: tuple[int, int], stream: stderr.StandardError) -> None:
    for number in range(5000):
        stream.write(b"%06d %s\n" % (number, b"x" * 100))
    received = b""
    while not stream.retry():
        received += read_all(pipe[0])
    received += read_all(pipe[0])
    lines = received.splitlines(keepends=True)
    assert lines[-1] == COUNT % (5000 - (len(lines) - 1))
    assert lines[-2].startswith(b"%06d " % (len(lines) - 2))


def test_a_long_line_goes_to_a_file(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        stream = stderr.StandardError(file.fileno())
        stream.write(b"x" * 1_000_000 + b"\n")
    assert (tmp_path / "log").stat().st_size == 1_000_001


def fill(stream: stderr.StandardError) -> int:
    """Write until the reader takes no more; return the number of lines."""
    written = 0
    while stream.retry():
        stream.write(b"line\n")
        written += 1
    return written


def test_a_signal_handler_may_write_in_the_midst_of_a_write(
    pipe: tuple[int, int], stream: stderr.StandardError
) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: stream.write(b"alarm\n") and None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        received = b""
        for _ in range(20_000):
            stream.write(b"line\n")
            received += read_all(pipe[0])
        full = fill(stream)
        for _ in range(2000):
            stream.write(b"line\n")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    while not stream.retry():
        received += read_all(pipe[0])
    received += read_all(pipe[0])
    lines = received.splitlines()
    assert set(lines) == {b"line", b"alarm"}
    assert lines.count(b"line") == 22_000 + full


def test_a_process_that_can_have_no_thread_writes_later(
    pipe: tuple[int, int], stream: stderr.StandardError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", fail)
    stream.let_thread()
    while stream.retry():
        stream.write(b"x" * 4096)
    stream.write(b"last\n")
    received = read_all(pipe[0])
    stream.write(b"after\n")
    assert (received + read_all(pipe[0])).endswith(b"last\nafter\n")


RUN = """
import logging, multiprocessing, sys
if {is_configured}:
    logging.basicConfig()
import bolide
from bolide.server import stderr

stderr.install()
logging.getLogger("bolide").warning("installed")
if {is_configured}:
    assert logging.getLogger().handlers[0].stream is sys.stderr
def child():
    for number in range(3000):
        print(number, "x" * 100, file=sys.stderr)
child_process = multiprocessing.get_context("fork").Process(target=child)
child_process.start()
child_process.join()
stderr.uninstall()
assert sys.stderr is sys.__stderr__
logging.getLogger("bolide").warning("uninstalled")
"""


@pytest.mark.parametrize("is_configured", [True, False])
def test_handlers_and_forked_processes(tmp_path: Path, is_configured: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN.format(is_configured=is_configured)],
        cwd=tmp_path,
        env=clean_environ(),
        stderr=subprocess.PIPE,
        check=True,
        timeout=20,
    )
    lines = done.stderr.decode().splitlines()
    assert (lines[0], lines[-1]) in [
        ("WARNING:bolide:installed", "WARNING:bolide:uninstalled"),
        ("installed", "uninstalled"),
    ]
    assert [int(line.split()[0]) for line in lines[1:-1]] == list(range(3000))


def test_only_the_real_stream_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    stderr.install()
    assert sys.stderr is before
    assert stderr.installed() is None


SCRIPT = """
import os, sys
import bolide

app = bolide.App()

@app.get("/")
def inheritable(request):
    return [os.get_inheritable(fd) for fd in range(3)]

if __name__ == "__main__":
    bolide.run(app, bind=["unix:socket"])
"""


def wait_for_socket(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens there."""

    def listens() -> bool:
        assert process.poll() is None
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_until(listens)


def test_a_script_without_standard_streams(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env=clean_environ(),
        preexec_fn=lambda: os.closerange(0, 3),
    )
    try:
        wait_for_socket(tmp_path / "socket", process)
        with Connection(str(tmp_path / "socket")) as client:
            assert client.get("/").json() == [True, True, True]
        process.terminate()
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("program", "ends"),
    [
        (("app.py",), (0, -signal.SIGINT, -signal.SIGTERM)),
        (("-m", "bolide", "serve", "app:app", "--uds", "socket"), (0,)),
    ],
)
def test_a_signal_during_the_last_words_to_nobody(
    tmp_path: Path,
    pipe: tuple[int, int],
    program: tuple[str, ...],
    ends: tuple[int, ...],
    number: signal.Signals,
) -> None:
    (tmp_path / "app.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, *program], cwd=tmp_path, env=clean_environ(), stderr=pipe[1]
    )
    try:
        wait_for_socket(tmp_path / "socket", process)
        received: list[bytes] = []

        def is_announced() -> bool:
            received.append(read_all(pipe[0]))
            return b" serving " in b"".join(received)

        wait_until(is_announced)
        os.set_blocking(pipe[1], False)
        with contextlib.suppress(BlockingIOError):
            while os.write(pipe[1], b"x"):
                pass
        os.set_blocking(pipe[1], True)
        process.terminate()
        wait_until(lambda: children(process.pid) == [])
        # Half a second is left for the reader.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        process.send_signal(number)
        assert process.wait(timeout=10) in ends
    finally:
        process.kill()
        process.wait()
