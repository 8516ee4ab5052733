"""How connections are spread over workers: evenly, past those that are full, stuck or gone."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.client import Connection
from support.server import Server, Start

pytestmark = pytest.mark.alone

WORKERS = 4
BUSIEST_SHARE_MAX = 1.5
"""What the busiest worker may have, in terms of the mean."""
ATTEMPTS = 3
"""On a busy machine a worker may get no processor for a while, and so no connection."""
BLOCK_MS = 4000
ASK_WHO = b"GET /pid HTTP/1.1\r\nHost: test\r\n\r\n"
Open = Callable[[int], list[Connection]]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what closes connections at the end of the test."""
    with ExitStack() as stack:
        yield stack


def connect(server: Server, stack: ExitStack, count: int) -> list[Connection]:
    """Open connections at once."""
    return [stack.enter_context(server.connect()) for _ in range(count)]


def shares(server: Server, clients: list[Connection]) -> list[int]:
    """Return how many of the connections each worker has."""
    for client in clients:
        client.send(ASK_WHO)
    count = Counter(client.read().json()["pid"] for client in clients)
    return [count[pid] for pid in server.workers()]


def are_even(found: list[int]) -> bool:
    """Return whether the busiest has not much more than the mean."""
    return max(found) * len(found) <= BUSIEST_SHARE_MAX * sum(found)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("count", [40, 400])
def test_a_burst_is_spread(start: Start, stack: ExitStack, loop: str, count: int) -> None:
    server = start("basic.py", "--workers", str(WORKERS), "--loop", loop)
    found = shares(server, connect(server, stack, count))
    assert are_even(found), found


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("count", [40, 400])
def test_who_come_one_by_one_are_spread(
    start: Start, stack: ExitStack, loop: str, count: int
) -> None:
    server = start("basic.py", "--workers", str(WORKERS), "--loop", loop)
    clients = []
    for _ in range(count):
        clients += connect(server, stack, 1)
        assert clients[-1].get("/").status == 200
    found = shares(server, clients)
    assert are_even(found), found


def test_over_a_unix_socket_too(start: Start, stack: ExitStack, tmp_path: Path) -> None:
    server = start("basic.py", "--workers", str(WORKERS), "--uds", str(tmp_path / "socket"))
    found = shares(server, connect(server, stack, 40))
    assert are_even(found), found


def test_who_lost_connections_gets_the_next(start: Start, stack: ExitStack) -> None:
    server = start("basic.py", "--workers", str(WORKERS))
    clients = connect(server, stack, 200)
    assert are_even(shares(server, clients))
    emptied = server.workers()[:2]
    kept = []
    for client in clients:
        if client.get("/pid").json()["pid"] in emptied:
            client.socket.close()
        else:
            kept.append(client)
    for _ in range(ATTEMPTS):
        kept += connect(server, stack, 200 - len(kept))
        if are_even(shares(server, kept)):
            return
        kept.pop().socket.close()
    pytest.fail(str(shares(server, kept)))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_few_connections_keep_all_workers_at_work(start: Start, loop: str) -> None:
    server = start("basic.py", "--workers", str(WORKERS), "--loop", loop)
    for _ in range(ATTEMPTS):
        with ExitStack() as stack:
            clients = connect(server, stack, 16)
            found = shares(server, clients)
        if min(found) >= 3:
            return
    pytest.fail(str(found))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nobody_is_turned_away_while_a_worker_has_room(
    start: Start, stack: ExitStack, loop: str
) -> None:
    options = ("--workers", str(WORKERS), "--connections-max", "50", "--loop", loop)
    server = start("basic.py", *options)
    clients = connect(server, stack, 50 * WORKERS)
    assert shares(server, clients) == [50] * WORKERS
    # Only now, and not without a word.
    for surplus in connect(server, stack, 30):
        reply = surplus.read()
        assert (reply.status, reply.get("retry-after"), reply.is_last) == (503, "1", True)
        assert surplus.is_closed()
        surplus.socket.close()
    for client in clients[:20]:
        client.socket.close()
    # The end of a connection is seen a moment after it was closed.
    end = time.monotonic() + 10
    while len(clients) < 50 * WORKERS + 20:
        assert time.monotonic() < end
        (late,) = connect(server, stack, 1)
        late.send(ASK_WHO)
        if late.read().status == 200:
            clients.append(late)
        else:
            late.socket.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_stuck_worker_keeps_nobody_waiting(start: Start, stack: ExitStack, loop: str) -> None:
    server = start("basic.py", "--workers", str(WORKERS), "--loop", loop)
    (stuck,) = connect(server, stack, 1)
    began = time.monotonic()
    stuck.send(f"GET /block/{BLOCK_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    server.wait_line("blocking")
    found: Counter[int] = Counter()
    clients = connect(server, stack, 60)
    for client in clients:
        found[client.get("/pid").json()["pid"]] += 1
    assert time.monotonic() - began < BLOCK_MS / 1000
    assert len(found) == WORKERS - 1
    # Back, it gets what it has less than the others.
    assert stuck.read().content == b"done"
    clients += [*connect(server, stack, 40), stuck]
    assert are_even(found := shares(server, clients)), found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nobody_waits_for_a_worker_that_has_gone(
    start: Start, stack: ExitStack, number: signal.Signals
) -> None:
    """It was asked to take connections, and ends before it comes."""
    server = start("basic.py", "--workers", "2")
    (stuck,) = connect(server, stack, 1)
    stuck.send(f"GET /block/{BLOCK_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    server.wait_line("blocking")
    clients = connect(server, stack, 10)
    assert {client.get("/").status for client in clients} == {200}
    (other,) = {client.get("/pid").json()["pid"] for client in clients}
    (gone,) = set(server.workers()) - {other}
    waiting = connect(server, stack, 10)
    os.kill(gone, number)
    waiting += connect(server, stack, 10)
    for client in waiting:
        assert client.get("/").status == 200
    server.wait_line("startup ran")
    # Its successor, which accepts a moment after its startup ran, has what comes next.
    end = time.monotonic() + 10
    while (pid := connect(server, stack, 1)[0].get("/pid").json()["pid"]) == other:
        assert time.monotonic() < end
    assert pid != gone
    assert shares(server, connect(server, stack, 10))[server.workers().index(pid)] >= 5


@pytest.mark.parametrize("workers", [1, WORKERS])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_waits_when_a_drain_begins_is_served(
    start: Start, stack: ExitStack, loop: str, workers: int
) -> None:
    backlog = int(Path("/proc/sys/net/core/somaxconn").read_text())
    count = min(1500, backlog)
    options = ("--workers", str(workers), "--backlog", str(backlog), "--loop", loop)
    server = start("basic.py", *options)
    pids = server.workers()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    clients = connect(server, stack, count)
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
    server.signal(signal.SIGTERM)
    server.wait_line("stopping")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    for client in clients:
        with closing(client.socket):
            reply = client.read()
            assert (reply.status, reply.content) == (200, b"hello")
    assert server.wait() == 0
