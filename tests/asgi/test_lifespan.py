"""The lifespan around the requests (points 43 to 45)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.client import Connection
from support.request import head
from support.server import Server, Start, wait_for_end

pytestmark = pytest.mark.slow

APP = "asgi/life.py"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Make a FIFO that an application waits for."""
    path = tmp_path / "release"
    os.mkfifo(path)
    return path


def release(fifo: Path) -> None:
    """Let the application go on that waits for the FIFO."""
    fifo.write_bytes(b"x")


def first(lines: list[str], *parts: str) -> list[int]:
    """Return the places of the first lines with these parts."""
    return [next(at for at, line in enumerate(lines) if part in line) for part in parts]


def test_43_startup_is_awaited_before_anything_is_served(
    start: Start, loop: str, tmp_path: Path, fifo: Path
) -> None:
    path = tmp_path / "socket"
    env = {"LIFESPAN": "held", "RELEASE": str(fifo)}
    server = start(APP, "--uds", str(path), "--loop", loop, env=env, ready=False)
    server.wait_line("lifespan.startup")
    with pytest.raises(ConnectionRefusedError):
        Connection(str(path))
    release(fifo)
    server.wait_line("startup ends with 0 requests")
    server.wait_ready()
    with server.connect() as client:
        client.send(head("GET", "/"))
        assert client.read().content.endswith(b" True")


def test_43_shutdown_is_sent_when_the_last_request_has_ended(
    start: Start, loop: str, fifo: Path
) -> None:
    server = start(APP, "--loop", loop, env={"RELEASE": str(fifo)})
    with server.connect() as client, server.connect():
        client.send(head("GET", "/held"))
        server.wait_line("request begins")
        server.signal(signal.SIGTERM)
        server.wait_line("stopping")
        release(fifo)
        assert client.read().content == b"held"
        assert server.wait() == 0
    ended, shutdown, complete = first(
        server.lines, "request ends", "lifespan.shutdown after 1 requests", "shutdown is complete"
    )
    assert ended < shutdown < complete


def test_43_shutdown_is_awaited_for_a_bounded_time(start: Start, loop: str) -> None:
    env = {"LIFESPAN": "never-shuts-down"}
    server = start(APP, "--loop", loop, "--graceful-timeout-ms", "700", env=env)
    server.signal(signal.SIGTERM)
    server.wait_line("lifespan.shutdown")
    server.wait_line("the graceful time is over; killing 1 worker")
    server.wait()


@pytest.mark.parametrize("way", ["raises", "returns"])
def test_44_an_application_without_a_lifespan_is_served_without(
    start: Start, loop: str, way: str
) -> None:
    server = start(APP, "--loop", loop, env={"LIFESPAN": way})
    with server.connect() as client:
        assert client.get("/").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors
    assert "lifespan.shutdown" not in server.errors


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("raises-at-startup", "RuntimeError: broken"),
        ("cancels-at-startup", "CancelledError: broken"),
        ("closes-at-startup", "GeneratorExit: broken"),
        ("raises-no-exception-at-startup", "OddError: broken"),
    ],
)
def test_44_an_application_that_raises_during_its_startup_is_served_and_reported(
    start: Start, loop: str, way: str, error: str
) -> None:
    server = start(APP, "--loop", loop, env={"LIFESPAN": way})
    with server.connect() as client:
        assert client.get("/").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count("WARN  bolide: the application raised during its startup") == 1
    assert server.errors.count(error) == 1
    assert "lifespan.shutdown" not in server.errors


@pytest.mark.parametrize("workers", ["1", "2"])
def test_44_the_exception_of_a_startup_that_failed_without_a_reason_is_reported(
    start: Start, loop: str, workers: str
) -> None:
    options = ("--loop", loop, "--workers", workers)
    server = start(APP, *options, env={"LIFESPAN": "startup-failed-raising"}, ready=False)
    assert server.wait() == 3
    reason = "RuntimeError: no database"
    assert f"error: the application's startup failed: {reason}" in server.errors
    assert 'raise RuntimeError("no database")' in server.errors
    assert "no reason given" not in server.errors


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("way", "reason"), [("startup-failed", "no database"), ("startup-failed-silently", "no reason")]
)
def test_44_a_failed_startup_is_said_and_ends_the_server(
    start: Start, loop: str, way: str, reason: str, workers: str
) -> None:
    options = ("--loop", loop, "--workers", workers)
    server = start(APP, *options, env={"LIFESPAN": way}, ready=False)
    assert server.wait() == 3
    assert f"error: the application's startup failed: {reason}" in server.errors
    assert server.errors.count("lifespan.startup") <= int(workers)
    assert "the next one starts" not in server.errors
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("way", ["shutdown-failed", "raises-at-shutdown", "exits-at-shutdown"])
def test_44_a_failed_shutdown_is_said_and_the_server_ends(
    start: Start, loop: str, way: str
) -> None:
    server = start(APP, "--loop", loop, env={"LIFESPAN": way})
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count(": no goodbye\n") == 1
    assert "after its startup" not in server.errors
    assert ("Traceback" in server.errors) == (way != "shutdown-failed")


def test_44_a_lifespan_that_ends_after_its_startup_ends_nothing(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop, env={"LIFESPAN": "ends-after-startup"})
    with server.connect() as client:
        assert client.get("/").content.endswith(b" True")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors


@pytest.mark.parametrize(
    ("way", "error"),
    [("raises-after-startup", "RuntimeError: gone"), ("exits-after-startup", "SystemExit: gone")],
)
def test_44_a_lifespan_that_raises_after_its_startup_is_reported(
    start: Start, loop: str, way: str, error: str
) -> None:
    server = start(APP, "--loop", loop, env={"LIFESPAN": way})
    with server.connect() as client:
        assert client.get("/").content.endswith(b" True")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    says = "ERROR bolide: the application's lifespan failed after its startup; it is served, but "
    assert server.errors.count(says) == 1
    assert server.errors.count(error) == 1
    assert "during its startup" not in server.errors


def started(server: Server) -> list[int]:
    """Return the processes that ran the startup, in order."""
    lines = [line.split() for line in server.lines if line.startswith("lifespan.startup ")]
    return [int(words[1]) for words in lines]


def test_45_lifespan_and_requests_share_a_loop_and_a_state(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop)
    with server.connect() as client:
        assert client.get("/").content == f"{server.workers()[0]} True".encode()
    assert server.lines[0].rstrip().endswith("['asgi', 'state', 'type']")


def test_45_there_is_one_for_each_worker_and_each_that_takes_its_place(
    start: Start, loop: str
) -> None:
    server = start(APP, "--loop", loop, "--workers", "2")
    workers = server.workers()
    assert sorted(started(server)) == sorted(workers)
    os.kill(workers[0], signal.SIGKILL)
    assert wait_for_end(workers[0])
    server.wait_line("lifespan.startup")
    assert len(started(server)) == 3
    assert started(server)[-1] not in workers
