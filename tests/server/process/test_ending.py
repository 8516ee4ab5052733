"""What ends a worker besides its supervisor, and how others know that it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

LOOPS = ("asyncio", "uvloop")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("/cancel", r"the application cancelled the main task of the event loop, which ends the"),
        ("/exit", r"the application called sys\.exit\(3\) outside of a request, which ends the"),
        (
            "/interrupt",
            r"the application raised KeyboardInterrupt outside of a request, which ends the worker",
        ),
        ("/stop", r"the application called loop\.stop\(\), which ends the worker"),
    ],
)
def test_an_application_that_ends_the_loop_is_named_and_its_worker_replaced(
    start: Start, loop: str, target: str, line: str
) -> None:
    server = start("tasks/ending.py", "--loop", loop)
    [first] = server.workers()
    with server.connect() as client, contextlib.suppress(ConnectionError, AssertionError):
        client.get(target)
    server.wait_line(line)
    server.wait_line(r"worker 1 \(pid \d+\) ended: exit status 1; the next one starts in")
    with server.connect() as client:
        assert client.get("/").content == b"root"
    assert first not in server.workers()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count("which ends the worker") == 1


STARTUP = """
import asyncio, sys, time
from bolide import App

app = App()

def say(what):
    print(what, file=sys.stderr, flush=True)

@app.on_startup
async def connect():
    say("startup began")
    try:
        {wait}
    except asyncio.CancelledError as error:
        say("startup cancelled")
        {then}

@app.on_shutdown
def disconnect():
    say("shutdown ran")
"""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("raise", ["startup cancelled"]),
        ("pass", ["startup cancelled", "shutdown ran"]),
        ("raise OSError('gone')", ["startup cancelled", "OSError: gone, after the stop has begun"]),
    ],
)
def test_a_startup_is_cancelled_by_term_and_one_that_completes_is_shut_down(
    start: Start, tmp_path: Path, loop: str, then: str, said: list[str]
) -> None:
    (tmp_path / "app.py").write_text(STARTUP.format(wait="await asyncio.sleep(10_000)", then=then))
    server = start("app:app", "--loop", loop, "--workers", "1", ready=False, cwd=tmp_path)
    server.wait_line("startup began")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    ends = [line for line in server.errors.splitlines() if " INFO " not in line]
    assert [line[-len(end) :] for line, end in zip(ends[1:], said, strict=True)] == said


def test_a_startup_that_blocks_is_killed_long_before_the_graceful_time_is_over(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(STARTUP.format(wait="time.sleep(10_000)", then="pass"))
    options = ("--workers", "2", "--graceful-timeout-ms", "600000")
    server = start("app:app", *options, ready=False, cwd=tmp_path)
    server.wait_line("startup began")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    killed = r"worker \d \(pid \d+\) has not ended its startup, which was cancelled; killing it"
    assert 1 <= len(re.findall(killed, server.errors)) <= 2


def test_a_worker_whose_threads_outlive_its_loop_is_replaced(start: Start) -> None:
    timeouts = ("--graceful-timeout-ms", "1500", "--worker-timeout-ms", "0")
    server = start("tasks/ending.py", *timeouts)
    [first] = server.workers()
    with server.connect() as client, contextlib.suppress(ConnectionError, AssertionError):
        client.get("/thread")
    server.wait_line(
        rf"worker 1 \(pid {first}\) has stopped serving and has not exited; the next one starts in"
    )
    with server.connect() as client:
        assert client.get("/").content == b"root"
    server.wait_line(rf"worker 1 \(pid {first}\) has not drained in time; killing it")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_server_that_stops_does_not_replace_a_worker_that_leaves(start: Start) -> None:
    server = start("tasks/ending.py", "--graceful-timeout-ms", "2500")
    with server.connect() as client, contextlib.suppress(ConnectionError, AssertionError):
        client.get("/thread")
    server.wait_line(r"called sys\.exit\(3\) outside of a request")
    server.signal(signal.SIGTERM)
    assert server.wait() == 1
    assert "the graceful time is over; killing 1 worker(s)" in server.errors
    assert "the next one starts" not in server.errors


def test_a_worker_that_somebody_else_ends_is_replaced_while_it_drains(start: Start) -> None:
    server = start("tasks/ending.py")
    [first] = server.workers()
    with server.connect() as client:
        client.send(b"POST /content HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nco")
        server.wait_line("reading")
        os.kill(first, signal.SIGTERM)
        server.wait_line(rf"worker 1 \(pid {first}\) has stopped serving and has not exited")
        with server.connect() as other:
            assert other.get("/").content == b"root"
        client.send(b"al")
        assert client.read().content == b"coal"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_endless_streams_can_end_when_term_arrives(start: Start, loop: str) -> None:
    server = start("tasks/ending.py", "--loop", loop, "--graceful-timeout-ms", "60000")
    with server.connect() as client:
        client.send(b"GET /events HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read_head().status == 200
        client.read_until(b"begun\r\n")
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        client.read_until(b", ended\r\n0\r\n\r\n")
    assert server.wait() == 0
    assert time.monotonic() - began < 20


LINGERS = """
import os, signal, sys, threading, time
from bolide import App

app = App()

def linger():
    threading.Event().wait()

def write_junk():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd > 2 and os.readlink(f"/proc/self/fd/{{fd}}").startswith("pipe:"):
                os.write(fd, b"junk\\n")
        except OSError:
            pass

@app.on_startup
async def connect():
    import asyncio
    threading.Thread(target=linger).start()
    {startup}
"""
KILLED_EARLY = r"worker 1 \(pid \d+\) has not ended its startup, which was cancelled; killing it"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("startup", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM); await asyncio.sleep(10_000)", "signal SIGKILL"),
        ("asyncio.get_running_loop().stop(); await asyncio.sleep(10_000)", "signal SIGKILL"),
        ("write_junk(); time.sleep(10_000)", "its report is malformed"),
    ],
    ids=["cancelled", "loop stopped", "malformed"],
)
def test_a_startup_that_somebody_else_ends_does_not_last_for_ever(
    start: Start, tmp_path: Path, loop: str, startup: str, why: str
) -> None:
    (tmp_path / "app.py").write_text(LINGERS.format(startup=startup))
    options = ("--loop", loop, "--graceful-timeout-ms", "600", "--workers", "1")
    server = start("app:app", *options, ready=False, cwd=tmp_path)
    assert server.wait() == 3
    assert len(re.findall(KILLED_EARLY, server.errors)) == 1
    assert why in server.lines[-1]


UNLOGGED = """
import sys, time
from bolide import App
from bolide.server import supervisor

app = App()

def fails(workers):
    raise LookupError("of a filter")

supervisor.heartbeat.log_late = fails

@app.get("/")
def block(request):
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(10_000)
"""
"""Keeps the supervisor that imports it from logging which workers are late."""


def test_a_worker_that_blocks_is_killed_although_nothing_can_be_logged_of_it(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(UNLOGGED)
    server = start("app:app", "--preload", "--graceful-timeout-ms", "300", cwd=tmp_path)
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("blocking")
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
    assert server.errors.count("LookupError: of a filter") == 1
