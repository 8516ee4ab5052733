"""What a server costs while nobody asks it anything."""

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.server import Server, Start
from support.worker import ticks

pytestmark = pytest.mark.slow

WINDOW_S = 1.5
WINDOWS = 6
"""After its last request a worker looks once whether it has memory to give back: it need not be
idle in the first window."""
RSS_KIB_MAX = 30 * 1024
GROWTH_KIB_MAX = 30 * 1024
OF_A_SERVER = ("bolide.cli", "bolide.start", "bolide.server.supervisor", "bolide.interface")
RARELY_NEEDED = {"bolide.interface.debugging.page", "hashlib", "html", "watchfiles", "uvloop"}
"""What would take over 1 MiB of each process, and is used with few options only."""
CONTENT = b"x" * (12 << 20)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def status(pid: int, name: str) -> int:
    """Return a number from a process's status file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(name)


def test_idle_server_uses_no_processor_time(start: Start) -> None:
    server = start("basic.py", "--workers", "2")
    with server.connect() as client:
        assert client.get("/").status == 200
        assert any(is_idle(server) for _ in range(WINDOWS))


def is_idle(server: Server) -> bool:
    """Watch for a window's time; return whether no process did anything."""
    processes = [server.pid, *server.workers()]
    used = [ticks(pid) for pid in processes]
    woken = [status(pid, "voluntary_ctxt_switches") for pid in processes]
    assert server.is_silent(WINDOW_S)
    wakes = [status(pid, "voluntary_ctxt_switches") for pid in processes]
    return used == [ticks(pid) for pid in processes] and all(
        now - then <= 2 for now, then in zip(wakes, woken, strict=True)
    )


def flusher_wakes(worker: int) -> int:
    """Count how often the thread was woken that watches calls."""
    for task in Path(f"/proc/{worker}/task").iterdir():
        if (task / "comm").read_text().startswith("bolide-flusher"):
            return status(int(task.name), "voluntary_ctxt_switches")
    raise AssertionError("there is no such thread")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_heartbeat_wakes_no_thread_that_watches_calls(start: Start, loop: str) -> None:
    """Eight beats per second, each of which would keep it awake for 100 ms."""
    server = start("basic.py", "--loop", loop, "--worker-timeout-ms", "1000")
    with server.connect() as client:
        assert client.get("/").status == 200
        (worker,) = server.workers()
        assert any(is_still(server, worker) for _ in range(WINDOWS))
        assert client.get("/").status == 200


def is_still(server: Server, worker: int) -> bool:
    """Watch for a window's time; return whether the thread slept all the time."""
    before = flusher_wakes(worker)
    assert server.is_silent(WINDOW_S)
    return flusher_wakes(worker) - before <= 1


def test_worker_is_small(start: Start) -> None:
    server = start()
    with server.connect() as client:
        assert client.get("/").status == 200
    (worker,) = server.workers()
    assert status(worker, "VmRSS") <= RSS_KIB_MAX


def test_what_few_need_is_not_imported_by_all() -> None:
    program = f"import sys, {', '.join(OF_A_SERVER)}; print(*sys.modules)"
    words = [sys.executable, "-c", program]
    modules = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert set(OF_A_SERVER) <= set(modules)
    assert not RARELY_NEEDED & set(modules)


def resident_kib(server: Server) -> int:
    """Return the resident memory of the only worker."""
    (worker,) = server.workers()
    return status(worker, "VmRSS")


def becomes(server: Server, is_right: Callable[[int], bool], within_s: float = 8) -> bool:
    """Watch the worker's resident memory; return whether it becomes right in time."""
    end = time.monotonic() + within_s
    while not is_right(resident_kib(server)):
        if time.monotonic() > end or not server.is_silent(0.05):
            return False
    return True


def abort_uploads(server: Server, count: int) -> None:
    """Send a part of many contents, until the worker holds all of it; then reset."""
    before = resident_kib(server)
    announced = len(CONTENT) + 1
    head = f"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {announced}\r\n\r\n".encode()
    with ExitStack() as clients:
        for _ in range(count):
            client = clients.enter_context(server.connect())
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.send(head + CONTENT)
        held_kib = count * len(CONTENT) // 1024
        assert becomes(server, lambda now: now - before >= 0.9 * held_kib)


@pytest.mark.parametrize("target", ["native", "asgi"])
@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_memory_of_aborted_uploads_is_given_back(start: Start, target: str, name: str) -> None:
    server = start(f"behaviour/uploads.py:{target}", "--loop", name)
    with server.connect() as client:
        assert client.post("/", b"x").content == b"1"
    before = resident_kib(server)
    abort_uploads(server, 20)
    assert becomes(server, lambda now: now - before <= GROWTH_KIB_MAX)
    with server.connect() as client:
        assert client.post("/", CONTENT).content == b"%d" % len(CONTENT)


@pytest.mark.parametrize("threads", [1, 8])
def test_memory_that_threads_used_is_given_back(start: Start, threads: int) -> None:
    server = start("behaviour/uploads.py:wsgi", "--threads", str(threads))
    before = resident_kib(server)

    def upload(_: int) -> bytes:
        with server.connect() as client:
            return client.post("/", CONTENT).content

    with ThreadPoolExecutor(threads) as clients:
        sizes = list(clients.map(upload, range(6 * threads)))
    assert set(sizes) == {b"%d" % len(CONTENT)}
    assert becomes(server, lambda now: now - before <= GROWTH_KIB_MAX)
