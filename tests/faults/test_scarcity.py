"""Descriptors and memory that run out, clients that leave in every way."""

from __future__ import annotations

import os
import random
import signal
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from faults.conftest import Matrix, scaled
from faults.ledger import Outcome
from faults.test_crashes import wait_responses
from faults.traffic import Traffic, exchange
from support.client import Connection
from support.memory import limit_memory
from support.peer import reset
from support.waiting import wait_until
from support.worker import ticks
from tls.authority import Authority

pytestmark = pytest.mark.alone

DESCRIPTORS = 64


@pytest.mark.timeout(180)
def test_a_server_without_descriptors_recovers(matrix: Matrix) -> None:
    """Row 9: more clients than descriptors, for a while; nothing turns, nothing is lost."""
    limit = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", "--pid")
    server = matrix.start("native", "--connections-max", "1000")
    [worker] = server.workers()
    subprocess.run([*limit, str(worker)], check=True)
    hold_s, clients = scaled(30, 3), 200
    with Traffic(server, matrix.ledger) as traffic, ExitStack() as idle:
        traffic.add(8, "/quick", pause_s=0.02)
        wait_responses(matrix, 20)
        opened = [idle.enter_context(server.connect()) for _ in range(clients)]
        before = ticks(worker)
        threading.Event().wait(hold_s)
        used = (ticks(worker) - before) * 10 / hold_s
        wait_responses(matrix, 50)
        traffic.over.set()
    for each in opened:
        each.socket.close()
    with server.connect() as connection:
        [entry] = exchange(connection, matrix.ledger, "/quick")
    assert entry.outcome is Outcome.COMPLETE
    compared = matrix.compare()
    shown = f"{compared}; {used:.0f} ms of processor per s"
    matrix.record(9, f"{clients} idle clients for {hold_s} s: {shown}", len(compared.lost))
    assert not compared.lost and not compared.wrong
    assert used < 500
    assert server.workers() == [worker]


@pytest.mark.timeout(120)
def test_a_worker_without_memory_serves_on(matrix: Matrix) -> None:
    """Row 10: the address space is exhausted by responses; the others are served meanwhile."""
    server = matrix.start("asgi")
    [worker] = server.workers()
    limit_memory(worker, 48 << 20)
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(4, "/work?ms=5", pause_s=0.01)
        traffic.add(2, "/quick?size=100000000", is_kept=False)
        wait_responses(matrix, scaled(2000, 200))
    compared = matrix.compare(runs_to_end=False)
    statuses = Counter(entry.status for entry in matrix.ledger.entries)
    matrix.record(
        10, f"RLIMIT_AS: {compared}; {statuses[500]:,} with status 500", len(compared.lost)
    )
    assert not compared.lost and not compared.wrong
    assert statuses[500] and statuses[200]
    assert server.workers() == [worker]


@pytest.mark.timeout(120)
def test_a_worker_that_the_kernel_ends_is_replaced(matrix: Matrix) -> None:
    """Row 10: a cgroup of its own has too little memory for what a worker does."""
    with memory_group(256 << 20) as group:
        ended_by_the_kernel(matrix, group)


@contextmanager
def memory_group(most_bytes: int) -> Iterator[Path]:
    """Make a cgroup with so much memory and no swap, of version 2 or 1."""
    root = Path("/sys/fs/cgroup")
    is_v2 = "memory" in read(root / "cgroup.controllers").split()
    group = (root if is_v2 else root / "memory") / f"bolide-faults-{os.getpid()}"
    try:
        if not is_v2 and not (group.parent / "memory.limit_in_bytes").exists():
            raise FileNotFoundError("no cgroup has a limit of memory")
        group.mkdir()
        (group / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(most_bytes))
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def read(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    return path.read_text() if path.exists() else ""


def ended_by_the_kernel(matrix: Matrix, group: Path) -> None:
    server = matrix.start("asgi", "--workers", "2")
    for pid in [server.pid, *server.workers()]:
        (group / "cgroup.procs").write_text(str(pid))
    try:
        with server.connect() as connection:
            exchange(connection, matrix.ledger, "/quick?size=400000000")
        server.wait_line(r"worker \d \(pid \d+\).*signal 9|SIGKILL")
        wait_until(lambda: len(server.workers()) == 2)
        with Traffic(server, matrix.ledger) as traffic:
            traffic.add(4, "/work?ms=5", pause_s=0.01)
            wait_responses(matrix, 100)
    finally:
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    compared = matrix.compare()
    matrix.record(
        10, f"cgroup of 256 MiB: {compared} (the one that needs 400 MB)", len(compared.lost)
    )
    assert len(compared.lost) == 1 and not compared.wrong


WAYS = ("head", "body", "request", "response", "handshake")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_clients_that_leave(matrix: Matrix, tmp_path: Path, interface: str, has_tls: bool) -> None:
    """Row 11: clients reset or close at every point; the server is then as it was before."""
    authority = Authority()
    files = authority.issue(tmp_path, "localhost", "127.0.0.1")
    options = files.options if has_tls else ()
    server = matrix.start(interface, "--threads", "8", *options)
    tls = authority.client() if has_tls else None
    [worker] = server.workers()
    count = scaled(10_000 if interface == "native" else 2000, 100)
    with Traffic(server, matrix.ledger, tls) as traffic:
        leave_all(traffic, 50)
        with traffic.connect() as connection:
            exchange(connection, matrix.ledger, "/work?ms=300")
        before = descriptors(worker)
        traffic.add(2, "/work?ms=5", pause_s=0.01)
        for _ in range(4):
            traffic.run(lambda: leave_all(traffic, count // 4))
        for thread in traffic._threads[2:]:
            thread.join()
        traffic.over.set()
    wait_until(lambda: descriptors(worker) <= before, patience_s=15)
    compared = matrix.compare()
    kind = f"{interface}, {'TLS' if has_tls else 'plain'}"
    matrix.record(11, f"{kind}: {count:,} left; of others {compared}", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    assert "Traceback" not in "".join(server.lines).replace("OSError", "")
    assert server.workers() == [worker]


def descriptors(pid: int) -> int:
    """Count the descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def leave_all(traffic: Traffic, count: int) -> None:
    """Leave in random ways; these requests are not in the ledger."""
    chance = random.Random(count)  # noqa: S311
    for number in range(count):
        with suppress(OSError, ssl.SSLError):
            leave(traffic, chance, f"left-{number}")


def leave(traffic: Traffic, chance: random.Random, name: str) -> None:
    """Leave at a random point, with a reset or an ordinary close."""
    way = chance.choice(WAYS)
    connection = Connection(traffic._server.address) if way == "handshake" else traffic.connect()
    head = f"POST /upload?id={name} HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n"
    if way == "handshake":
        connection.send(os.urandom(chance.randrange(1, 100)))
    elif way == "head":
        connection.send(head[: chance.randrange(1, len(head))].encode())
    elif way == "body":
        connection.send(head.encode() + b"x" * chance.randrange(99_999))
    elif way == "request":
        connection.send(f"GET /work?ms=20&id={name} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    else:
        connection.send(
            f"GET /stream?size=3000000&id={name} HTTP/1.1\r\nHost: test\r\n\r\n".encode()
        )
        connection.take(chance.randrange(1, 10_000))
    if chance.random() < 0.5:
        reset(connection)
    else:
        connection.socket.close()
