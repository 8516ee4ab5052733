"""What a worker reports is read whatever else is written to its pipe."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from bolide.server.child import EXIT_CRASH, REPORT_BYTES_MAX, UNKNOWN_END, Child
from support.server import APPLICATIONS, Server

READY = b'{"ready": true, "connection_bytes_max": 5}\n'


@pytest.fixture
def pipe() -> Iterator[tuple[Child, int]]:
    """Return the supervisor's side of a worker, and what the worker writes to."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    yield Child(os.getpid(), read_fd), write_fd
    os.close(read_fd)
    os.close(write_fd)


def test_one_that_other_code_has_reaped_gets_no_signal() -> None:
    with subprocess.Popen(["true"]) as other:
        other.wait()
    child = Child(other.pid, -1)
    child.kill(signal.SIGTERM)
    assert child.ended() == UNKNOWN_END


def test_a_report_may_come_in_parts(pipe: tuple[Child, int]) -> None:
    child, fd = pipe
    for byte in READY[:-1]:
        os.write(fd, bytes([byte]))
        assert not child.read_report()
    os.write(fd, READY[-1:] + b'{"requests": 3}\n')
    assert child.read_report()
    assert child.is_ready and child.report["requests"] == 3
    assert not child.is_malformed


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b"3",
        b"\xff\xfe",
        b'{"ready": 1}',
        b'{"ready": true, "other": 1}',
        b'{"requests": "3"}',
        b'{"message": null}',
        b"[" * 100_000,
        b"x" * (REPORT_BYTES_MAX + 1),
    ],
    ids=lambda line: line[:12].decode(errors="replace"),
)
def test_what_is_no_report_is_a_failed_start_with_one_line(
    pipe: tuple[Child, int], line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    child, fd = pipe
    os.set_blocking(fd, False)
    rest = line + b"\n"
    while rest:
        rest = rest[os.write(fd, rest[:60000]) :]
        child.read_report()
    assert not child.is_ready
    assert (child.report["code"], child.report["message"]) == (
        EXIT_CRASH,
        "its report is malformed",
    )
    (record,) = caplog.records
    assert record.getMessage().startswith(f"the report of process {os.getpid()} is malformed (")


def test_a_worker_that_serves_is_not_ended_by_it(
    pipe: tuple[Child, int], caplog: pytest.LogCaptureFixture
) -> None:
    child, fd = pipe
    os.write(fd, READY + b'one\ntwo\n{"requests": 7}\n')
    assert child.read_report()
    assert child.is_ready and child.report["requests"] == 7
    assert len(caplog.records) == 1


def test_ready_without_its_figure_is_not_ready(pipe: tuple[Child, int]) -> None:
    child, fd = pipe
    os.write(fd, b'{"ready": true}\n')
    assert child.read_report()
    assert not child.is_ready


def test_a_process_that_other_code_has_reaped_has_ended(pipe: tuple[Child, int]) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    child = Child(pid, pipe[0].report_fd)
    os.waitpid(pid, 0)
    assert (child.ended(), child.has_ended) == (UNKNOWN_END, True)


SECOND_FAILS = """
from bolide.server import child

start, calls = child.start, []

def fails_once(*arguments):
    calls.append(arguments)
    if len(calls) == 2:
        raise RuntimeError("of the test")
    return start(*arguments)

child.start = fails_once
from bolide.cli import main
main()
"""


class FailingOnce(Server):
    """A server whose second worker cannot be started, for a reason that is no OSError."""

    program = ("-c", SECOND_FAILS, "serve")


@pytest.mark.slow
def test_a_place_does_not_stay_empty() -> None:
    server = FailingOnce(["basic.py", "--port", "0"], APPLICATIONS)
    try:
        server.wait_ready()
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        server.wait_line("ended: signal SIGKILL; the next one starts")
        server.wait_line(
            r"worker 1 cannot start: RuntimeError\('of the test'\); the next one starts"
        )
        with server.connect() as client:
            assert client.get("/").content == b"hello"
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.close()
