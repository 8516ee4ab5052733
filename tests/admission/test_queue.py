"""Requests that wait for the application: their number, their order, and what becomes of them."""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from admission.ledger import Ledger
from support.client import Connection
from support.h2 import Client, data, get, post, reset
from support.management import Managed
from support.server import Start
from support.waiting import wait_until
from support.websocket import connect

pytestmark = pytest.mark.slow

WAITING = "bolide_requests_waiting"
FULL = 'bolide_requests_refused_total{cause="queue_full"}'
LATE = 'bolide_requests_refused_total{cause="queue_timeout"}'


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return the file that the application writes to."""
    return Ledger(tmp_path)


def managed_by(ledger: Ledger, start: Start, *options: str) -> Managed:
    return Managed(start, "admission/ledger.py", *options, env=ledger.env)


def ask(managed: Managed, path: str) -> Connection:
    client = managed.server.connect()
    client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return client


def wait_for(managed: Managed, name: str, value: float) -> None:
    wait_until(lambda: managed.metrics()[name] == value)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_requests_beyond_concurrency_wait_in_order(start: Start, ledger: Ledger, loop: str) -> None:
    managed = managed_by(ledger, start, "--concurrency-max", "1", "--loop", loop)
    with ExitStack() as stack:
        clients = []
        for number in range(5):
            clients.append(stack.enter_context(ask(managed, f"/hold/{number}")))
            wait_for(managed, WAITING, number)
        assert ledger.all("begun") == {"/hold/0": 1}
        opener = stack.enter_context(ask(managed, "/open"))
        wait_for(managed, WAITING, 5)
        # The first leaves, so that the next one runs, and so on: the gate is the sixth.
        for number, client in enumerate(clients):
            ledger.wait_begun(f"/hold/{number}")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
        assert opener.read().status == 200
    wait_for(managed, WAITING, 0)
    begun = [line for line in ledger.path.read_text().splitlines() if line.startswith("begun")]
    assert begun == [*(f"begun /hold/{number}" for number in range(5)), "begun /open"]


def test_a_full_queue_is_503_and_the_connection_remains(start: Start, ledger: Ledger) -> None:
    options = ("--concurrency-max", "1", "--queue-max", "1")
    managed = managed_by(ledger, start, *options)
    with ask(managed, "/hold/a") as first, managed.server.connect() as third:
        ledger.wait_begun("/hold/a")
        with ask(managed, "/hold/b") as second:
            wait_for(managed, WAITING, 1)
            for _ in range(2):
                reply = third.get("/hold/c")
                assert (reply.status, reply.get("retry-after"), reply.is_last) == (503, "1", False)
            reply = third.post("/hold/c", b"content that has arrived")
            assert (reply.status, reply.is_last) == (503, False)
            third.send(b"POST /hold/c HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n")
            reply = third.read()
            assert (reply.status, reply.is_last) == (503, True)
            assert managed.metrics()[FULL] == 4
            managed.server.wait_line(r"refused 1 request with 503: the queue is full")
            second.send(b"")
        first.socket.close()
    assert "/hold/c" not in ledger.all("begun")


def test_a_request_that_waits_too_long_never_begins(start: Start, ledger: Ledger) -> None:
    options = ("--concurrency-max", "1", "--queue-timeout-ms", "100")
    managed = managed_by(ledger, start, *options)
    with ask(managed, "/hold/a") as first, managed.server.connect() as second:
        ledger.wait_begun("/hold/a")
        reply = second.get("/hold/b")
        assert (reply.status, reply.get("retry-after"), reply.is_last) == (503, "1", False)
        reply = second.post("/hold/b", b"x" * 100_000)
        assert reply.status == 503
        assert managed.metrics()[LATE] == 2
        managed.server.wait_line(r"refused 1 request with 503: waited too long")
        first.socket.close()
    assert ledger.all("begun") == {"/hold/a": 1}


def test_a_client_that_leaves_is_forgotten(start: Start, ledger: Ledger) -> None:
    managed = managed_by(ledger, start, "--concurrency-max", "1")
    with ask(managed, "/hold/a"):
        ledger.wait_begun("/hold/a")
        with ask(managed, "/hold/reset") as gone:
            wait_for(managed, WAITING, 1)
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(managed, WAITING, 0)
        with ask(managed, "/hold/closed"):
            wait_for(managed, WAITING, 1)
        wait_for(managed, WAITING, 0)
    assert ledger.all("begun") == {"/hold/a": 1}


def test_streams_wait_are_refused_and_dropped(start: Start, ledger: Ledger) -> None:
    options = ("--concurrency-max", "1", "--queue-max", "2", "--h2c")
    managed = managed_by(ledger, start, *options)
    with Client(managed.server.connect()) as client, managed.server.connect() as opener:
        client.send(get(1, "/hold/1"), get(3, "/hold/3"), post(5, "/read/5"), get(7, "/hold/7"))
        refused = client.response(7)
        assert (refused.status, refused.get("retry-after")) == (503, "1")
        client.send(reset(3), data(5, b"content", is_last=True), get(9, "/hold/9"))
        wait_for(managed, WAITING, 2)
        assert ledger.all("begun") == {"/hold/1": 1}
        client.send(reset(1))
        assert client.response(5).status == 200
        ledger.wait_begun("/hold/9")
        opener.send(b"GET /open HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_for(managed, WAITING, 1)
        client.send(reset(9))
        assert opener.read().status == 200
    assert ledger.all("begun").keys() == {"/hold/1", "/read/5", "/hold/9", "/open"}


def test_streams_that_wait_too_long_never_begin(start: Start, ledger: Ledger) -> None:
    options = ("--concurrency-max", "1", "--queue-timeout-ms", "50", "--h2c")
    managed = managed_by(ledger, start, *options)
    with Client(managed.server.connect()) as client:
        client.send(get(1, "/hold/1"), get(3, "/hold/3"), post(5, "/read/5"))
        for stream in (3, 5):
            refused = client.response(stream)
            assert (refused.status, refused.get("retry-after")) == (503, "1")
        client.ping()
        assert managed.metrics()[LATE] == 2
    assert ledger.all("begun") == {"/hold/1": 1}


def test_a_server_that_stops_refuses_what_waits(start: Start, ledger: Ledger) -> None:
    server = ledger.serve(start, "--concurrency-max", "1", "--graceful-timeout-ms", "500")
    with server.connect() as first, server.connect() as second:
        first.send(b"GET /hold/a HTTP/1.1\r\nHost: test\r\n\r\n")
        ledger.wait_begun("/hold/a")
        second.send(b"GET /hold/b HTTP/1.1\r\nHost: test\r\n\r\n")
        server.process.terminate()
        assert first.read().status == 503
        assert second.read().status == 503
        assert server.wait() == 0
    assert ledger.all("begun") == {"/hold/a": 1}


def test_what_waits_is_in_the_log_and_the_metrics(start: Start, ledger: Ledger) -> None:
    log = ledger.path.with_name("access.log")
    options = ("--concurrency-max", "1", "--graceful-timeout-ms", "500", "--access-log", str(log))
    managed = managed_by(ledger, start, *options)
    with ask(managed, "/hold/a"), managed.server.connect() as last:
        ledger.wait_begun("/hold/a")
        with ask(managed, "/hold/reset") as gone:
            wait_for(managed, WAITING, 1)
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(managed, 'bolide_http_requests_total{method="GET",status="none"}', 1)
        last.send(b"HEAD /hold/b HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_for(managed, WAITING, 1)
        managed.server.process.terminate()
        assert last.read("HEAD").status == 503
        assert last.is_closed()
        assert managed.server.wait() == 0
    lines = log.read_text()
    assert '"GET /hold/reset HTTP/1.1" 499 0' in lines
    assert '"HEAD /hold/b HTTP/1.1" 503 ' in lines


def test_asking_for_a_websocket_that_is_not_served_passes_no_one(start: Start) -> None:
    managed = Managed(start, "basic.py", "--concurrency-max", "1")
    with ask(managed, "/slow/2000") as first, managed.server.connect() as second:
        managed.server.wait_line("in flight")
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        second.send(b"GET /slow/0 HTTP/1.1\r\nHost: test\r\n" + upgrade + b"\r\n")
        wait_for(managed, WAITING, 1)
        assert first.read().content == b"done"
        assert second.read().content == b"done"


def test_websockets_do_not_count(start: Start, ledger: Ledger) -> None:
    server = ledger.serve(start, "--concurrency-max", "1")
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(server)).open("/")
        client = stack.enter_context(server.connect())
        assert client.get("/sleep").status == 200


@pytest.mark.parametrize(
    ("application", "option"),
    [("ledger.py", "--concurrency-max"), ("ledger_wsgi.py", "--threads")],
    ids=["coroutines", "threads"],
)
def test_what_clients_got_is_what_the_application_did(
    start: Start, ledger: Ledger, application: str, option: str
) -> None:
    """Threads of clients ask at random times, some leave: no 503 was begun, each 200 once."""
    options = (option, "3", "--queue-max", "6", "--queue-timeout-ms", "40")
    managed = Managed(start, f"admission/{application}", *options, env=ledger.env)
    got: dict[str, int] = {}

    def client(number: int) -> None:
        draw = random.Random(number)  # noqa: S311 - any schedule will do
        connection = managed.server.connect()
        for turn in range(40):
            name = f"/sleep/{number}/{turn}"
            if draw.random() < 0.3:
                connection.send(f"GET {name} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
                connection.socket.close()
                connection = managed.server.connect()
            elif draw.random() < 0.3:
                got[name] = connection.post(name, b"x" * draw.randrange(1, 50_000)).status
            else:
                got[name] = connection.get(name).status
        connection.socket.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    wait_for(managed, WAITING, 0)
    wait_until(lambda: ledger.all("begun") == ledger.all("finished"))
    begun = ledger.all("begun")
    assert set(begun.values()) == {1}
    refused = {name for name, status in got.items() if status == 503}
    assert {*got.values()} == {200, 503}
    assert not refused & begun.keys()
    assert {name for name, status in got.items() if status == 200} <= begun.keys()
    metrics = managed.metrics()
    # Those who left may have been refused too.
    assert metrics[FULL] + metrics[LATE] >= len(refused)


def test_a_server_that_stops_serves_what_waits_if_there_is_time(
    start: Start, ledger: Ledger
) -> None:
    managed = managed_by(ledger, start, "--concurrency-max", "1")
    with ask(managed, "/hold/a") as first, ask(managed, "/sleep/b") as second:
        ledger.wait_begun("/hold/a")
        wait_for(managed, WAITING, 1)
        managed.server.process.terminate()
        managed.server.wait_line("stopping: ")
        first.socket.close()
        reply = second.read()
        assert (reply.status, reply.is_last) == (200, True)
        assert managed.server.wait() == 0


def test_clients_that_send_half_requests_take_no_place(start: Start, ledger: Ledger) -> None:
    managed = managed_by(ledger, start, "--concurrency-max", "1", "--queue-max", "1")
    with ExitStack() as stack:
        for _ in range(5):
            slow = stack.enter_context(managed.server.connect())
            slow.send(b"GET /hold/x HTTP/1.1\r\nHost")
        client = stack.enter_context(managed.server.connect())
        assert client.get("/sleep").status == 200
    assert ledger.all("begun") == {"/sleep": 1}


def test_mounted_applications_and_native_routes_share_places(start: Start) -> None:
    managed = Managed(start, "admission/mounted.py", "--concurrency-max", "1")
    with ExitStack() as stack:
        native = stack.enter_context(ask(managed, "/hold"))
        managed.server.wait_line("holding")
        mounted = stack.enter_context(ask(managed, "/mounted"))
        wait_for(managed, WAITING, 1)
        native.socket.close()
        assert mounted.read().content == b"mounted"
