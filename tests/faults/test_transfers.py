"""Long uploads and downloads, slow readers, networks that fail without a word."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from faults.conftest import IS_LONG, Matrix, scaled
from faults.ledger import Entry, Outcome
from faults.proxy import Proxy
from faults.traffic import Traffic, exchange, request
from support.client import Connection
from support.h2 import WINDOW_BYTES, Client, Kind, data, post
from support.server import Server
from support.waiting import wait_until
from support.websocket import PING, WebSocket

pytestmark = [pytest.mark.alone, pytest.mark.matrix]

SIZE = 10 << 30 if IS_LONG else scaled(1 << 30, 64 << 20)
PART = bytes(range(256)) * 1024
GROWTH_BYTES_MAX = 16 << 20
INTERFACES = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])

UPLOADS = [
    (interface, framing)
    for interface in ("native", "asgi", "wsgi")
    for framing in ("length", "chunked", "h2")
    # PEP 3333 has no content of unknown length: it is held, up to body_bytes_max.
    if (interface, framing) != ("wsgi", "chunked")
]


class Peak:
    """Watches a worker's resident memory, in a thread."""

    def __init__(self, server: Server) -> None:
        [self._pid] = server.workers()
        self.first = self.most = self._read()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def growth_mib(self) -> float:
        """How much it has grown at most."""
        return (self.most - self.first) / 2**20

    def _read(self) -> int:
        fields = Path(f"/proc/{self._pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self._read())


def expected(entry: Entry, size: int) -> bytes:
    """Return what the application responds with after an upload."""
    digest = hashlib.sha256()
    for _ in range(size // len(PART)):
        digest.update(PART)
    return f"{entry.identity} {size} {digest.hexdigest()}".encode()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("interface", "framing"), UPLOADS)
def test_a_long_upload(matrix: Matrix, interface: str, framing: str) -> None:
    """Row 21: every octet arrives, and memory does not grow with the content."""
    options = ("--body-bytes-max", str(SIZE), "--h2c")
    server = matrix.start(interface, *options, "--handler-timeout-ms", "900000")
    with server.connect() as connection:
        exchange(connection, matrix.ledger, "/quick")
    entry = matrix.ledger.begin()
    with server.connect() as connection, Peak(server) as peak:
        connection.socket.settimeout(60)
        if framing == "h2":
            entry.content = bytes(upload_h2(connection, entry))
        else:
            entry.content = upload(connection, entry, framing == "chunked")
    entry.outcome, entry.status, entry.sent_bytes = Outcome.COMPLETE, 200, SIZE
    assert entry.content == expected(entry, SIZE)
    compared = matrix.compare()
    size = f"{SIZE / 2**30:g} GiB"
    matrix.record(
        21,
        f"{interface}, {framing}: {size} whole; memory + {peak.growth_mib:.1f} MiB",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong
    assert peak.growth_mib * 2**20 <= GROWTH_BYTES_MAX


def upload(connection: Connection, entry: Entry, is_chunked: bool) -> bytes:
    """Send the content; return the response's."""
    how = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {SIZE}"
    connection.send(
        f"POST /upload?id={entry.identity} HTTP/1.1\r\nHost: test\r\n{how}\r\n\r\n".encode()
    )
    for _ in range(SIZE // len(PART)):
        connection.send(b"%x\r\n%b\r\n" % (len(PART), PART) if is_chunked else PART)
    if is_chunked:
        connection.send(b"0\r\n\r\n")
    reply = connection.read()
    assert reply.status == 200, reply
    return reply.content


def upload_h2(connection: Connection, entry: Entry) -> bytearray:
    """Send the content as the windows allow; return the response's."""
    with Client(connection) as client:
        length = (b"content-length", str(SIZE).encode())
        client.send(post(1, f"/upload?id={entry.identity}", length))
        windows, seen = {0: WINDOW_BYTES, 1: WINDOW_BYTES}, 0
        left, place = SIZE, 0
        client.read_until(Kind.SETTINGS)
        while left:
            while min(windows.values()) < 16_384:
                frame = client.read()
                assert frame.kind not in (Kind.RST_STREAM, Kind.GOAWAY), frame
                if frame.kind == Kind.WINDOW_UPDATE:
                    windows[frame.stream] += int.from_bytes(frame.payload, "big")
                seen += 1
            part = PART[place : place + 16_384]
            client.send(data(1, part, is_last=left == len(part)))
            left -= len(part)
            place = (place + len(part)) % len(PART)
            for stream in windows:
                windows[stream] -= len(part)
        message = client.response(1)
        assert message.status == 200
        return message.content


@pytest.mark.timeout(900)
@INTERFACES
def test_a_long_download(matrix: Matrix, interface: str) -> None:
    """Row 22: a generator waits for its readers; ten slow ones and a fast one."""
    server = matrix.start(interface, "--threads", "16", "--response-rate-bytes-per-s-min", "0")
    with server.connect() as connection:
        exchange(connection, matrix.ledger, "/quick")
    entry, received = matrix.ledger.begin(), 0
    slow = [Connection(server.address, receive_buffer_bytes=4096) for _ in range(10)]
    with Peak(server) as peak, Connection(server.address, timeout_s=60) as connection:
        for number, each in enumerate(slow):
            each.send(
                f"GET /stream?size={SIZE}&id=slow{number} HTTP/1.1\r\nHost: test\r\n\r\n".encode()
            )
        connection.send(
            f"GET /stream?size={SIZE}&id={entry.identity} HTTP/1.0\r\nHost: test\r\n\r\n".encode()
        )
        while part := connection.socket.recv(1 << 20):
            received += len(part)
            for each in slow:
                if received % 10 == 0:
                    each.socket.recv(1024)
    for each in slow:
        each.socket.close()
    compared = matrix.compare()
    entry.outcome, entry.status = Outcome.COMPLETE, 200
    size = f"{SIZE / 2**30:g} GiB"
    matrix.record(
        22,
        f"{interface}: {size} beside 10 slow readers; memory + {peak.growth_mib:.1f} MiB",
        len(compared.lost) if received < SIZE else 0,
    )
    assert SIZE <= received <= SIZE + 1000
    assert peak.growth_mib * 2**20 <= GROWTH_BYTES_MAX + 11 * (1 << 20)


@pytest.mark.timeout(120)
@INTERFACES
def test_fast_clients_beside_slow_readers(matrix: Matrix, interface: str) -> None:
    """Row 23: 99 % of fast requests take as long with slow readers as without."""
    server = matrix.start(interface, "--threads", "16", "--response-rate-bytes-per-s-min", "0")
    count, readers = scaled(2000, 300), scaled(200, 50)
    before_ms = slowest_ms(matrix, server, count)
    slow = [Connection(server.address, receive_buffer_bytes=4096) for _ in range(readers)]
    for number, each in enumerate(slow):
        each.send(request_of_much(number))
        assert each.socket.recv(100)
    beside_ms = slowest_ms(matrix, server, count)
    for each in slow:
        each.socket.close()
    compared = matrix.compare()
    matrix.record(
        23,
        f"{interface}: 99 % within {before_ms:.1f} ms, "
        f"beside {readers} slow readers {beside_ms:.1f} ms",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert beside_ms < before_ms * 3 + 20


def request_of_much(number: int) -> bytes:
    """Return a request for more than the buffers of a connection take."""
    return f"GET /quick?size=8000000&id=slow{number} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


def slowest_ms(matrix: Matrix, server: Server, count: int) -> float:
    """Return within which time 99 % of requests were served."""
    times = []
    with server.connect() as connection:
        for _ in range(count):
            begun = time.perf_counter()
            exchange(connection, matrix.ledger, "/quick")
            times.append(time.perf_counter() - begun)
    return sorted(times)[int(count * 0.99)] * 1000


@pytest.mark.timeout(120)
def test_a_network_that_delays_and_cuts(matrix: Matrix) -> None:
    """Row 24: through a proxy that delays, divides, and resets connections."""
    server = matrix.start("native", "--h2c")
    [worker] = server.workers()
    descriptors = len(os.listdir(f"/proc/{worker}/fd"))
    with Proxy(server.address, delay_s=0.02, part_bytes=7) as proxy:
        server.urls = [f"http://127.0.0.1:{proxy.port}"]
        with Traffic(server, matrix.ledger) as traffic:
            traffic.add(8, "/work?ms=5", pause_s=0.01)
            wait_until(lambda: len(matrix.ledger.entries) > scaled(1000, 100), patience_s=60)
        cut = proxy.cut()
    compared = matrix.compare()
    matrix.record(24, f"20 ms and 7 bytes at a time: {compared}; {cut} cut", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    wait_until(lambda: len(os.listdir(f"/proc/{worker}/fd")) <= descriptors)


@pytest.mark.timeout(120)
def test_a_network_that_is_silent(matrix: Matrix) -> None:
    """Row 24: the other side is gone without FIN or RST; every connection ends all the same."""
    server = matrix.start(
        "native",
        "--h2c",
        "--keep-alive-timeout-ms=1000",
        "--header-timeout-ms=1000",
        "--write-timeout-ms=1000",
        "--body-grace-ms=1000",
        "--websocket-ping-interval-ms=500",
        "--websocket-ping-timeout-ms=500",
    )
    [worker] = server.workers()
    address = server.address
    descriptors = len(os.listdir(f"/proc/{worker}/fd"))
    with Proxy(address) as proxy:
        there = ("127.0.0.1", proxy.port)
        kinds = {
            "idle": (Connection(there), b""),
            "head": (Connection(there), b"GET /quick?id=x HTTP/1.1\r\nHo"),
            "content": (Connection(there), request("/upload", Entry("half"), b"x" * 9)[:-5]),
            "response": (Connection(there), request_of_much(0) * 4),
            "h2": (Connection(there), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
        }
        websocket = WebSocket(there)
        websocket.open("/echo")
        assert websocket.frame().opcode == PING
        for connection, octets in kinds.values():
            connection.send(octets)
        proxy.wait_passed(sum(len(octets) for _, octets in kinds.values()))
        begun = time.monotonic()
        proxy.is_silent = True
        wait_until(lambda: len(os.listdir(f"/proc/{worker}/fd")) <= descriptors, patience_s=40)
        ended_s = time.monotonic() - begun
        for connection, _ in kinds.values():
            connection.socket.close()
        websocket.socket.close()
    with Connection(address) as connection:
        [entry] = exchange(connection, matrix.ledger, "/quick")
    compared = matrix.compare()
    matrix.record(
        24,
        f"silent in 6 states: all connections ended within {ended_s:.1f} s (timeouts of 1 s)",
        len(compared.lost),
    )
    assert entry.outcome is Outcome.COMPLETE
