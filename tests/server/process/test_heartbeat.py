"""Workers that hang are replaced, and the log says where they hung."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.child import UNHEARD_SIGNALS
from bolide.server.kernel import is_stopped
from bolide.server.process import heartbeat
from bolide.server.process.heartbeat import LOOKS, Heart, Pulse, Stage
from support.management import Managed
from support.server import Server, Start, wait_for_end
from support.waiting import wait_until

APP = """
import asyncio
import ctypes
import os
import re
import sys
import time
import bolide

app = bolide.App()

@app.get("/")
def pid(request):
    return str(os.getpid())

@app.get("/sleep")
def sleep_for_ever(request):
    time.sleep(1000)

@app.get("/spin")
async def spin_for_ever(request):
    while True:
        pass

@app.get("/backtrack")
def backtrack_for_ever(request):
    return re.match(r"(a+)+$", "a" * 60 + "b")

@app.get("/deadlock")
def lock_with_the_interpreter(request):
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)

@app.get("/block")
def block(request):
    print("blocking", file=sys.stderr)
    while os.path.exists("blocking"):
        time.sleep(0.01)
    return "went on"

@app.get("/wait")
async def wait(request):
    print("waiting", file=sys.stderr)
    while os.path.exists("waiting"):
        await asyncio.sleep(0.01)
    return "waited"
"""

WSGI = """
import threading

lock = threading.Lock()
lock.acquire()

def app(environ, start_response):
    if environ["PATH_INFO"] == "/lock":
        lock.acquire()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""

WATCHED = ("--worker-timeout-ms", "1000")
HANGS = r"ERROR bolide: worker (\d) \(pid (\d+)\) hangs: "
BLOCKED = "its event loop has been blocked"
HELD = r"its interpreter \(GIL\) has been held, and not released,"
FOR = r" for \d+\.\d s \(--worker-timeout-ms 1000\); its threads:$"


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


def is_replaced(server: Server, cause: str, frame: str, *, is_reloading: bool = False) -> int:
    """Read what the log has of a worker that hangs; return its pid, when it has ended."""
    found = server.wait_line(HANGS + cause + FOR)
    name, pid = rf"worker {found[1]} \(pid {found[2]}\)", int(found[2])
    follows = "its successor is starting" if is_reloading else "the next one starts in 0.1 s"
    server.wait_line(r"^Current thread 0x[0-9a-f]+ .*\(most recent call first\):$")
    server.wait_line(rf'^  File ".*app.py", line \d+ in {frame}$')
    server.wait_line(r'^  File ".*/bolide/server/worker.py", line \d+ in run$')
    text = rf"ERROR bolide: {name} gets TERM, because it hangs; {follows}$"
    server.wait_line(text)
    server.wait_line(rf"WARN  bolide: {name} has not drained in time; killing it$")
    assert wait_for_end(pid)
    assert not [line for line in server.lines if "supervisor.py" in line]
    return pid


class Scarce:
    """A loop that has no memory for the first callback."""

    def __init__(self) -> None:
        self.calls = 0

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Run it, from the second one on."""
        self.calls += 1
        if self.calls == 1:
            raise MemoryError
        callback()


def test_a_beat_without_memory_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    heart, loop = Heart(), Scarce()
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise StopIteration

    monkeypatch.setattr(heartbeat, "sleep", sleep)
    with pytest.raises(StopIteration):
        heart._count(loop, 0.5)  # type: ignore[arg-type]
    assert heart.read() == (2, 3, 2)
    heart.close()


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("path", "cause", "frame"),
    [
        ("/sleep", BLOCKED, "sleep_for_ever"),
        ("/spin", BLOCKED, "spin_for_ever"),
        ("/backtrack", HELD, "backtrack_for_ever"),
        ("/deadlock", HELD, "lock_with_the_interpreter"),
    ],
)
def test_a_worker_that_hangs_is_replaced(
    start: Start, tmp_path: Path, loop: str, path: str, cause: str, frame: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", *WATCHED, "--workers", "2", "--loop", loop, cwd=tmp_path)
    with server.connect() as hanging:
        hanging.send(request(path))
        hung = is_replaced(server, cause, frame)
        assert hanging.is_closed()
    wait_until(lambda: len(server.workers()) == 2 and hung not in server.workers())
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors and "ended: " not in server.errors


@pytest.mark.slow
def test_the_other_worker_serves_meanwhile(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    managed = Managed(start, "app:app", *WATCHED, "--workers", "2", cwd=tmp_path)
    server = managed.server
    before = server.workers()
    with ExitStack() as stack:
        stack.enter_context(server.connect()).send(request("/sleep"))
        [hung] = wait_for_busy(managed)
        while hung in server.workers():
            with server.connect() as client:
                assert int(client.get("/").content) in {*before, *server.workers()} - {hung}
    wait_until(lambda: managed.status()["exits"] == {"timeout": 1})
    assert managed.metrics()['bolide_worker_exits_total{cause="timeout"}'] == 1


def wait_for_busy(managed: Managed) -> list[int]:
    """Wait until a worker hangs; return its pid."""

    def busy() -> list[int]:
        return [each["pid"] for each in managed.status()["workers"] if each["busy_s"] > 0.2]

    wait_until(lambda: bool(busy()))
    return busy()


@pytest.mark.slow
def test_a_worker_that_hangs_during_a_reload(start: Start, tmp_path: Path) -> None:
    """Its successor, which is importing the application, takes its place."""
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", *WATCHED, cwd=tmp_path)
    (tmp_path / "gate").touch()
    wait = "while os.path.exists('gate'):\n    time.sleep(0.01)\n"
    (tmp_path / "app.py").write_text(APP + wait)
    with server.connect() as hanging:
        server.signal(signal.SIGHUP)
        server.wait_line("reloading: replacing 1 worker$")
        hanging.send(request("/sleep"))
        is_replaced(server, BLOCKED, "sleep_for_ever", is_reloading=True)
    (tmp_path / "gate").unlink()
    server.wait_line(r"reloaded in [\d.]+ s: 1 worker$")
    with server.connect() as client:
        assert [int(client.get("/").content)] == server.workers()


@pytest.mark.slow
def test_a_worker_that_goes_on_after_all_drains(start: Start, tmp_path: Path) -> None:
    """Its handler ends between TERM and KILL, so all of its requests get their responses."""
    (tmp_path / "app.py").write_text(APP)
    for gate in ("blocking", "waiting"):
        (tmp_path / gate).touch()
    server = start("app:app", *WATCHED, cwd=tmp_path)
    [before] = server.workers()
    with server.connect() as client, server.connect() as other:
        other.send(request("/wait"))
        server.wait_line("waiting$")
        client.send(request("/block"))
        server.wait_line(HANGS + BLOCKED + FOR)
        (tmp_path / "blocking").unlink()
        assert client.read().content == b"went on"
        server.wait_line("the next one starts in 0.1 s$")
        assert server.is_silent(1.5)
        (tmp_path / "waiting").unlink()
        assert other.read().content == b"waited"
    assert wait_for_end(before)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "killing it" not in server.errors


@pytest.mark.slow
def test_wsgi_in_a_thread_does_not_block_the_loop(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WSGI)
    server = start("app:app", *WATCHED, "--threads", "2", cwd=tmp_path)
    [before] = server.workers()
    with server.connect() as waiting, server.connect() as client:
        waiting.send(request("/lock"))
        assert client.get("/").status == 200
        assert server.is_silent(2.5)
        assert client.get("/").status == 200
    assert server.workers() == [before]


@pytest.mark.slow
def test_wsgi_without_a_thread_does(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WSGI)
    server = start("app:app", *WATCHED, "--threads", "1", cwd=tmp_path)
    with server.connect() as waiting:
        waiting.send(request("/lock"))
        is_replaced(server, BLOCKED, "app")
        assert waiting.is_closed()
    with server.connect() as client:
        assert client.get("/").status == 200


STUCK = "all its threads have been occupied by views whose clients have left or got 503,"


@pytest.mark.slow
def test_wsgi_without_a_free_thread_does_when_nobody_waits(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WSGI)
    timeouts = ("--handler-timeout-ms", "300", "--graceful-timeout-ms", "500")
    server = start("app:app", *WATCHED, *timeouts, "--threads", "2", cwd=tmp_path)
    [before] = server.workers()
    with server.connect() as late, server.connect() as left:
        late.send(request("/lock"))
        left.send(request("/lock"))
        assert late.read().status == 503
        left.socket.close()
        found = server.wait_line(HANGS + STUCK + FOR)
        assert int(found[2]) == before
        server.wait_line(r'^  File ".*app.py", line \d+ in app$')
        server.wait_line("gets TERM, because it hangs; the next one starts in 0.1 s$")
        server.wait_line(r"leaving 2 view\(s\) that did not finish$")
        assert wait_for_end(before)
    with server.connect() as client:
        assert client.get("/").status == 200


@pytest.mark.slow
def test_many_signals_at_once_fit_on_the_stack_of_their_handlers(start: Start) -> None:
    server = start("basic.py")
    [worker] = server.workers()
    for _ in range(20):
        os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: is_stopped(worker))
        for number in UNHEARD_SIGNALS:
            os.kill(worker, number)
        os.kill(worker, signal.SIGCONT)
        with server.connect() as client:
            assert client.get("/").status == 200
    assert server.workers() == [worker]


@pytest.mark.slow
def test_a_process_that_is_stopped_does_not_hang(start: Start, tmp_path: Path) -> None:
    """Neither a worker alone, nor the whole server, as when a machine is suspended."""
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", *WATCHED, cwd=tmp_path)
    [worker] = server.workers()
    for processes in ([worker], [server.pid, worker]):
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert server.is_silent(2.5)
        finally:
            for pid in processes:
                os.kill(pid, signal.SIGCONT)
        with server.connect() as client:
            assert client.get("/").content == str(worker).encode()
        assert server.is_silent(0.5)
    assert server.workers() == [worker]


@pytest.mark.slow
def test_a_server_that_stops_has_its_graceful_time(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "blocking").touch()
    server = start("app:app", *WATCHED, cwd=tmp_path)
    with server.connect() as client:
        client.send(request("/block"))
        server.wait_line("blocking$")
        server.signal(signal.SIGTERM)
        server.wait_line("stopping: ")
        assert server.is_silent(2)
        (tmp_path / "blocking").unlink()
        assert server.wait() == 0
        assert client.read().content == b"went on"


@pytest.fixture
def heart() -> Iterator[Heart]:
    made = Heart()
    yield made
    made.close()


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Signals that would have been sent."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    return sent


def pulse(heart: Heart) -> Pulse:
    heart._turned()
    settings = resolve({"worker_timeout_ms": 8000}, environ={})
    return Pulse(heart, os.getpid(), settings, 100.0)


def test_looks_are_counted_and_not_time(heart: Heart, signals: list[int]) -> None:
    watched = pulse(heart)
    for look in range(LOOKS):
        assert watched.due is not None
        assert watched.look(watched.due + 1000 * look) == ""
    assert (watched.stage, signals) == (Stage.COUNTING, [])
    heart._turned()
    now = watched.due or 0.0
    assert watched.look(now) == ""
    assert watched.look(now + 0.5) == ""
    for look in range(1, LOOKS + 1):
        assert watched.look(now + look) == ""
        assert (watched.stage, signals) == (Stage.COUNTING, [])
    assert watched.look(now + LOOKS + 1) == ""
    assert (watched.stage, signals) == (Stage.ASKED, [signal.SIGRTMAX])


def asked(heart: Heart) -> tuple[Pulse, float]:
    """Return the pulse of a worker whose stacks have been asked for, and the time of that."""
    watched = pulse(heart)
    while watched.stage is Stage.COUNTING:
        assert watched.due is not None
        now = watched.due
        assert watched.look(now) == ""
        heart._counters[heartbeat.THREAD] += 1
    return watched, now


def test_stacks_of_before_are_not_those_of_now(heart: Heart, signals: list[int]) -> None:
    """Somebody has sent the signal before, as docs/command.md describes."""
    os.write(heart.stacks_fd, b"Thread 1:\n  File of before\n")
    watched, now = asked(heart)
    assert watched.look(now := now + heartbeat.STACKS_LOOK_S) == ""
    assert watched.look(now := now + heartbeat.STACKS_LOOK_S) == ""
    os.write(heart.stacks_fd, b"Thread 2:\n  File of now\n")
    assert watched.look(now := now + heartbeat.STACKS_LOOK_S) == ""
    found = watched.look(now + heartbeat.STACKS_LOOK_S)
    assert found.endswith("its threads:\nThread 2:\n  File of now")


def test_stacks_are_complete_when_they_do_not_grow(heart: Heart, signals: list[int]) -> None:
    watched, now = asked(heart)
    for part in (b"", b"Thread 1:\n", b"  File\n"):
        os.write(heart.stacks_fd, part)
        now += heartbeat.STACKS_LOOK_S
        assert watched.look(now) == ""
    text = "its event loop has been blocked for 9.4 s (worker_timeout_ms=8000); its threads:\n"
    assert watched.look(now + heartbeat.STACKS_LOOK_S) == f"{text}Thread 1:\n  File"
    assert (watched.stage, watched.due, watched.has_hung) == (Stage.HUNG, None, True)
    assert not watched.recovers()
    heart._counters[heartbeat.LOOP] += 1
    assert watched.recovers()
    assert not watched.recovers()
    assert watched.stage is Stage.RECOVERED and watched.has_hung


def test_views_that_nobody_waits_for_are_a_hang_of_a_loop_that_turns(
    heart: Heart, signals: list[int]
) -> None:
    watched = pulse(heart)
    heart._is_stuck = lambda: True
    while watched.stage is Stage.COUNTING:
        assert watched.due is not None
        now = watched.due
        heart._turned()
        heart._counters[heartbeat.THREAD] += 1
        assert watched.look(now) == ""
    os.write(heart.stacks_fd, b"Thread 1:\n")
    assert watched.look(now + heartbeat.STACKS_LOOK_S) == ""
    heart._turned()
    text = f"{STUCK} for 9.2 s (worker_timeout_ms=8000); its threads:\nThread 1:"
    assert watched.look(now + 2 * heartbeat.STACKS_LOOK_S) == text
    heart._turned()
    assert watched.recovers(), "its loop turns, so it drains"


def test_stacks_that_do_not_come_are_not_waited_for(heart: Heart, signals: list[int]) -> None:
    watched, now = asked(heart)
    assert watched.look(now + heartbeat.STACKS_S_MAX - 0.01) == ""
    told = watched.look(now + heartbeat.STACKS_S_MAX + heartbeat.STACKS_LOOK_S)
    assert told.endswith(" (worker_timeout_ms=8000); its stacks cannot be read")


def test_a_worker_without_a_thread_is_not_watched(heart: Heart, signals: list[int]) -> None:
    settings = resolve({"worker_timeout_ms": 1000}, environ={})
    watched = Pulse(heart, os.getpid(), settings, 0.0)
    for look in range(1, 50):
        assert watched.look(float(look)) == ""
    assert signals == []


def test_the_loop_counts_as_long_as_it_turns(heart: Heart) -> None:
    async def turn() -> None:
        heart.beat(asyncio.get_running_loop(), 80)
        before = heart.read()
        while heart.read()[0] < before[0] + 3:
            await asyncio.sleep(0)

    asyncio.run(turn())
    loop, thread, _ = heart.read()
    wait_until(lambda: heart.read()[1] > thread + 3)
    assert heart.read()[0] == loop


def test_the_time_is_long_enough_or_zero() -> None:
    assert resolve({}, environ={}).worker_timeout_ms == 30_000
    for given in (0, "0", 1000):
        assert resolve({"worker_timeout_ms": given}, environ={}).worker_timeout_ms == int(given)
    wrong = r"worker_timeout_ms=30 is out of range; give 1000 to \d+ \(0 = off\)$"
    with pytest.raises(ConfigError, match=wrong):
        resolve({"worker_timeout_ms": 30}, environ={})
    with pytest.raises(ConfigError, match=r"False is not a whole number"):
        resolve({"worker_timeout_ms": False}, environ={})
