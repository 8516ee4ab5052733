"""Connections that end while requests are made: drains, timeouts, half-closed clients."""

from __future__ import annotations

import random
import select
import signal
import socket
import threading
import time
from collections import Counter

import pytest

from faults.conftest import Matrix, scaled
from faults.ledger import Entry, Outcome
from faults.test_crashes import wait_responses
from faults.traffic import Traffic, exchange, receive, request, send
from support.client import Connection
from support.peer import reset
from support.server import Server
from support.waiting import wait_until
from support.websocket import CLOSE, WebSocket, close_frame
from support.worker import ticks

pytestmark = pytest.mark.alone


@pytest.mark.timeout(300)
@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_a_drain_finishes_what_was_begun(matrix: Matrix, interface: str) -> None:
    """Row 3: requests of every kind are in flight when TERM comes, again and again."""
    drains, ended_s = scaled(5, 1), []
    for _ in range(drains):
        server = matrix.start(interface, "--workers", "2", "--h2c", "--threads", "8")
        websocket = None if interface == "wsgi" else WebSocket(server.address)
        if websocket is not None:
            websocket.open("/echo")
        with Traffic(server, matrix.ledger) as traffic:
            traffic.add(8, "/work?ms=20", pause_s=0.01)
            traffic.add(4, "/quick", "/quick", "/work?ms=5", pause_s=0.01)
            traffic.add(4, "/work?ms=20", is_kept=False, pause_s=0.01)
            traffic.add(1, "/stream?size=20000&ms=50")
            traffic.add(1, "/work?ms=1500")
            traffic.add_h2(2, "/work?ms=20", 8, pause_s=0.01)
            wait_responses(matrix, 100)
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            traffic.over.set()  # each client ends after its exchange
            if websocket is not None:
                frame = websocket.frame()
                assert (frame.opcode, int.from_bytes(frame.content[:2], "big")) == (CLOSE, 1012)
                websocket.send(close_frame(1012))
                websocket.socket.close()
        assert server.wait() == 0, server.errors
        ended_s.append(time.monotonic() - begun)
    compared = matrix.compare()
    matrix.record(
        3,
        f"{interface}: {drains} drains within {max(ended_s):.1f} s; {compared}",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong
    assert not compared.reset


def test_a_drain_goes_on_under_load(matrix: Matrix) -> None:
    """Row 3: clients that go on during the drain lose nothing either."""
    server = matrix.start("native", "--workers", "2", "--h2c")
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(8, "/quick", pause_s=0.002)
        traffic.add(4, "/quick", "/quick", "/quick", pause_s=0.002)
        traffic.add(4, "/quick", is_kept=False, pause_s=0.002)
        wait_responses(matrix, 100)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0, server.errors
    compared = matrix.compare()
    matrix.record(3, f"load goes on: {compared}", len(compared.lost))
    assert not compared.lost and not compared.wrong
    assert not compared.reset


KEEP_ALIVE_MS = 200
RACERS = 200


@pytest.mark.timeout(400)
def test_a_client_uses_a_connection_when_it_is_closed(matrix: Matrix) -> None:
    """Row 4: the second request is sent within a millisecond of the end of the keep-alive time."""
    server = matrix.start("native", f"--keep-alive-timeout-ms={KEEP_ALIVE_MS}")
    rounds = scaled(50, 3)
    window_s = (ended_after_s(server), ended_after_s(server))
    for number in range(rounds):
        race(matrix, server, random.Random(number), min(window_s), max(window_s))  # noqa: S311
    compared = matrix.compare()
    seen = Counter(entry.outcome for entry in matrix.ledger.entries)
    matrix.record(
        4,
        f"{rounds * RACERS:,} requests at the end of the time: {compared}",
        len(compared.lost) + compared.reset,
    )
    assert not compared.lost and not compared.wrong
    assert not compared.reset, seen
    assert seen[Outcome.CLOSED] > 0, "the race was not close"


def ended_after_s(server: Server) -> float:
    """Return how long a connection stays open."""
    with server.connect() as connection:
        connection.get("/quick?id=measured")
        begun = time.monotonic()
        assert connection.is_at_end()
        return time.monotonic() - begun


def race(
    matrix: Matrix, server: Server, chance: random.Random, least_s: float, most_s: float
) -> None:
    """Use many connections at about the time at which the server closes them."""
    due: list[tuple[float, Connection]] = []
    for _ in range(RACERS):
        connection = server.connect()
        [first] = exchange(connection, matrix.ledger, "/quick")
        assert first.outcome is Outcome.COMPLETE
        after_s = chance.uniform(least_s - 0.005, most_s + 0.005)
        due.append((time.monotonic() + after_s, connection))
    sent: list[tuple[Connection, Entry]] = []
    for at, connection in sorted(due, key=lambda each: each[0]):
        while (left := at - time.monotonic()) > 0:
            select.select([], [], [], left)
        entry = matrix.ledger.begin()
        if send(connection, [entry], [request("/quick", entry)]):
            sent.append((connection, entry))
    for connection, entry in sent:
        receive(connection, entry)
    for _, connection in due:
        connection.socket.close()


@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_half_closed_clients_get_their_responses(matrix: Matrix, interface: str) -> None:
    """Row 12: clients shut down their side after the request; nothing turns meanwhile."""
    server = matrix.start(interface, "--threads", "8")
    count = scaled(200, 20)
    connections = [server.connect() for _ in range(8)]
    [worker] = server.workers()
    busy = 0
    for _ in range(count // 8 + 1):
        entries = []
        for connection in connections:
            entry = matrix.ledger.begin()
            send(connection, [entry], [request("/work?ms=100", entry)])
            connection.socket.shutdown(socket.SHUT_WR)
            entries.append(entry)
        before = ticks(worker)
        for connection, entry in zip(connections, entries, strict=True):
            receive(connection, entry)
            connection.socket.close()
        busy += ticks(worker) - before
        connections = [server.connect() for _ in range(8)]
    for connection in connections:
        connection.socket.close()
    compared = matrix.compare()
    rounds = count // 8 + 1
    used = busy * 10 / rounds
    matrix.record(
        12, f"{interface}: {compared}; {used:.0f} ms of processor per 100 ms", len(compared.lost)
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert used < 50, "it turns while it waits"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_one_slow_and_many_fast_on_a_connection(matrix: Matrix, interface: str) -> None:
    """Row 20: responses keep their order, and other connections do not wait."""
    server = matrix.start(interface, "--threads", "32")
    paths = ("/work?ms=1000", *("/quick" for _ in range(100)))
    slow = scaled(20, 4)
    over = threading.Event()
    with Traffic(server, matrix.ledger) as others, Traffic(server, matrix.ledger) as traffic:
        for _ in range(slow):
            traffic.run(lambda: pipeline(traffic, matrix, paths))
        longest_s = 0.0
        with server.connect() as other:
            for _ in range(50):
                begun = time.monotonic()
                [entry] = exchange(other, matrix.ledger, "/quick")
                longest_s = max(longest_s, time.monotonic() - begun)
                over.wait(0.005)
        assert others is not traffic
    compared = matrix.compare()
    matrix.record(
        20,
        f"{interface}: {slow} connections, each 1 slow and 100 fast: {compared}; "
        f"another connection waited {longest_s * 1000:.0f} ms at most",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert longest_s < 0.7


def pipeline(traffic: Traffic, matrix: Matrix, paths: tuple[str, ...]) -> None:
    with traffic.connect() as connection:
        entries = exchange(connection, matrix.ledger, *paths)
    assert all(entry.outcome is Outcome.COMPLETE for entry in entries)


@pytest.mark.timeout(120)
def test_an_asgi_application_that_blocks_delays_and_loses_nothing(matrix: Matrix) -> None:
    """Row 27: the loop is blocked for longer than the timeouts of connections."""
    times = ("--keep-alive-timeout-ms=500", "--header-timeout-ms=500")
    server = matrix.start("asgi", *times, "--worker-timeout-ms=0")
    rounds = scaled(5, 1)
    for _ in range(rounds):
        with server.connect() as blocker:
            kept = [server.connect() for _ in range(20)]
            for connection in kept:
                exchange(connection, matrix.ledger, "/quick")
            blocked = matrix.ledger.begin()
            send(blocker, [blocked], [request("/block?ms=1500", blocked)])
            wait_begun(matrix, blocked)
            entries = [matrix.ledger.begin() for _ in kept]
            new = [server.connect() for _ in range(20)]
            more = [matrix.ledger.begin() for _ in new]
            sent = list(zip([*kept, *new], [*entries, *more], strict=True))
            for connection, entry in sent:
                send(connection, [entry], [request("/quick", entry)])
            for connection, entry in [(blocker, blocked), *sent]:
                receive(connection, entry)
            for connection, _ in sent:
                connection.socket.close()
    compared = matrix.compare()
    matrix.record(27, f"{rounds} times 1.5 s: {compared}", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    assert not compared.reset


def wait_begun(matrix: Matrix, entry: Entry) -> None:
    """Wait until the application has begun a request."""
    wait_until(
        lambda: matrix.path.exists() and f"begun {entry.identity} " in matrix.path.read_text()
    )


@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_who_has_gone_before_its_turn_is_not_begun(matrix: Matrix, interface: str) -> None:
    """Row 13: a client resets while its requests wait for the one before them."""
    server = matrix.start(interface, "--threads", "1" if interface == "native" else "2")
    gone = scaled(100, 10)
    waiting: list[Entry] = []
    for _ in range(gone):
        connection = server.connect()
        first, *others = (matrix.ledger.begin() for _ in range(4))
        # Requests whose methods are not safe wait for those before them (RFC 9110 section 9.2.1).
        octets = [request("/upload", each, b"content") for each in others]
        send(connection, [first], [request("/work?ms=100", first)])
        wait_begun(matrix, first)
        send(connection, others, octets)
        waiting += others
        reset(connection)
    with server.connect() as connection:
        [entry] = exchange(connection, matrix.ledger, "/work?ms=300")
    assert entry.outcome is Outcome.COMPLETE
    begun = matrix.path.read_text()
    ran = sum(f"begun {each.identity} " in begun for each in waiting)
    matrix.record(13, f"{interface}: {gone} clients, {len(waiting)} requests waited, {ran} begun")
    assert ran == 0
