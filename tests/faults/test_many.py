"""Thousands of connections and WebSockets that are silent: what they cost, and who ends."""

from __future__ import annotations

import resource
import select
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.conftest import Matrix, scaled
from faults.ledger import Entry, Outcome
from faults.traffic import exchange
from support.client import Connection
from support.server import Server
from support.waiting import wait_until
from support.websocket import PING, WebSocket
from support.worker import ticks

pytestmark = [pytest.mark.alone, pytest.mark.slow]

WARM_UP = 100
BYTES_MAX = 4096
"""What an idle connection may take."""
WEBSOCKET_BYTES_MAX = 2048
"""What an idle WebSocket may take, without a message that its handler still has."""
PING_MS = 5000
NEW_MS_MAX = 50
"""How long a new client waits at most."""


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Let this process have as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def own_bytes(server: Server) -> int:
    """Return the worker's memory that is not shared."""
    [worker] = server.workers()
    status = Path(f"/proc/{worker}/status").read_text()
    [line] = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def processor_ms_per_s(server: Server, seconds: float) -> float:
    """Return how much of a processor the worker uses while nothing is sent."""
    [worker] = server.workers()
    before = ticks(worker)
    assert server.is_silent(seconds)
    return (ticks(worker) - before) * 10 / seconds


def new_client_ms(matrix: Matrix, server: Server) -> float:
    """Return how long new clients wait, in the median of twenty."""
    times = []
    for _ in range(21):
        begun = time.perf_counter()
        with server.connect() as connection:
            [entry] = exchange(connection, matrix.ledger, "/quick")
        assert entry.outcome is Outcome.COMPLETE
        times.append(time.perf_counter() - begun)
    return sorted(times)[10] * 1000


@pytest.mark.timeout(300)
def test_many_idle_connections(matrix: Matrix) -> None:
    """Row 18: they take little memory and no processor, and nobody waits for them."""
    count = scaled(10_000, 1000)
    server = matrix.start("native")
    with ExitStack() as stack:

        def open_some(number: int) -> None:
            for _ in range(number):
                connection = stack.enter_context(server.connect())
                [entry] = exchange(connection, matrix.ledger, "/quick")
                assert entry.outcome is Outcome.COMPLETE

        open_some(WARM_UP)
        before = own_bytes(server)
        open_some(count)
        each = (own_bytes(server) - before) / count
        used = processor_ms_per_s(server, 5)
        waited_ms = new_client_ms(matrix, server)
    compared = matrix.compare()
    matrix.record(
        18,
        f"{count:,} connections: {each:,.0f} bytes each, {used:.0f} ms of processor per s, a new "
        f"client waits {waited_ms:.1f} ms; {compared}",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert each <= BYTES_MAX and used <= 20 and waited_ms <= NEW_MS_MAX


@pytest.mark.timeout(300)
def test_idle_connections_end_for_new_ones(matrix: Matrix) -> None:
    """Row 18: there are as many as may be; the oldest idle ones are closed, none is reset."""
    count, new = scaled(10_000, 500), scaled(1000, 100)
    server = matrix.start("native", "--connections-max", str(count))
    with ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(count)]
        for connection in idle:
            [entry] = exchange(connection, matrix.ledger, "/quick")
            assert entry.outcome is Outcome.COMPLETE
        assert server.is_silent(1.1)  # they are idle from then on
        for _ in range(new):
            connection = stack.enter_context(server.connect())
            [entry] = exchange(connection, matrix.ledger, "/quick")
            assert entry.outcome is Outcome.COMPLETE
        how = [how_it_ended(connection) for connection in idle]
        ends = Counter(how)
    compared = matrix.compare()
    matrix.record(
        18,
        f"{new:,} new clients beside {count:,} idle ones: {compared}; {ends['closed']:,} idle ones "
        f"were closed, {ends['reset']:,} reset",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert not ends["reset"] and new <= ends["closed"] < new + count // 64
    # Those that were opened first are the ones that have waited longest.
    assert {*how[-count // 4 :]} == {"open"}


def how_it_ended(connection: Connection) -> str:
    """Return whether a connection is open, closed or reset, without waiting."""
    connection.socket.setblocking(False)
    try:
        return "closed" if connection.is_at_end() else "odd"
    except BlockingIOError:
        return "open"
    except OSError:
        return "reset"


@pytest.mark.timeout(300)
def test_many_idle_websockets(matrix: Matrix) -> None:
    """Row 19: each gets its pings, not all of them at once, and a new client does not wait.

    With fewer than 2,000 WebSockets, tables that double their capacity are a tenth of the bytes.
    """
    count = scaled(10_000, 2000)
    options = ("--websocket-ping-interval-ms", str(PING_MS), "--websocket-ping-timeout-ms", "60000")
    server = matrix.start("native", *options)
    with ExitStack() as stack:
        poll, sockets = select.epoll(), {}
        stack.callback(poll.close)

        def open_some(number: int) -> None:
            for _ in range(number):
                socket = stack.enter_context(WebSocket(server.address))
                socket.open("/echo")
                sockets[socket.socket.fileno()] = socket
                poll.register(socket.socket, select.EPOLLIN)

        open_some(WARM_UP)
        before = own_bytes(server)
        open_some(count)
        each = (own_bytes(server) - before) / count
        pings, most = take_pings(poll, sockets, PING_MS * 3 / 1000)
        waited_ms = new_client_ms(matrix, server)
    compared = matrix.compare()
    matrix.record(
        19,
        f"{count:,} WebSockets: {each:,.0f} bytes each; {len(pings):,} got pings every 5 s, at "
        f"most {most:,} within 100 ms; a new client waits {waited_ms:.1f} ms",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong
    assert len(pings) == len(sockets), "some got no ping"
    assert max(pings.values()) <= 4
    assert each <= WEBSOCKET_BYTES_MAX and waited_ms <= NEW_MS_MAX


def take_pings(
    poll: select.epoll, sockets: dict[int, WebSocket], seconds: float
) -> tuple[Counter[int], int]:
    """Read pings for some time; return how many each got, and how many came within 100 ms."""
    got: Counter[int] = Counter()
    when: Counter[int] = Counter()
    begun = time.monotonic()
    while (passed_s := time.monotonic() - begun) < seconds:
        for fd, _ in poll.poll(0.1, 1000):
            assert sockets[fd].frame().opcode == PING
            got[fd] += 1
            when[int(passed_s * 10)] += 1
    return got, max(when.values())


@pytest.mark.timeout(120)
def test_slow_uploads_end_for_new_clients(matrix: Matrix) -> None:
    """Row 18: as many uploads as there may be connections, each with a few octets per second."""
    count = scaled(2000, 200)
    server = matrix.start("native", "--connections-max", str(count))
    slow: list[tuple[Connection, Entry]] = []
    with ExitStack() as stack:
        for _ in range(count):
            entry = matrix.ledger.begin()
            connection = stack.enter_context(server.connect())
            connection.send(
                f"POST /upload?id={entry.identity} HTTP/1.1\r\nHost: test\r\n"
                "Content-Length: 1000\r\n\r\nx".encode()
            )
            slow.append((connection, entry))
        wait_until(lambda: is_served(matrix, server))
        for _ in range(50):
            with server.connect() as client:
                [entry] = exchange(client, matrix.ledger, "/quick")
            assert (entry.outcome, entry.status) == (Outcome.COMPLETE, 200)
        ends = Counter(how_it_ended(connection) for connection, _ in slow)
    matrix.record(
        18,
        f"{count:,} uploads of 1 octet each: 51 new clients were served; {ends['odd']:,} uploads "
        f"got 503, {ends['reset']:,} were reset",
    )
    assert ends["odd"] and not ends["reset"]


def is_served(matrix: Matrix, server: Server) -> bool:
    """Return whether a new client is served now."""
    with server.connect() as client:
        [entry] = exchange(client, matrix.ledger, "/quick")
        return entry.status == 200
