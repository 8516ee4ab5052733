"""A worker whose process may not have the memory that a request asks for."""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import ExitStack, suppress

import pytest

from support.client import Connection
from support.memory import limit_memory
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
LEFT_BYTES = 96 * MEBIBYTE
"""What the worker may have beside what it has when it serves."""
LONG_BYTES = 256 * MEBIBYTE
APPLICATION = {
    "native": ("memory/native.py",),
    "asgi": ("memory/asgi.py",),
    "wsgi": ("memory/wsgi.py", "--threads", "2"),
    "wsgi, inline": ("memory/wsgi.py", "--threads", "1"),
}
LATER = ("native", "asgi")
"""These have coroutines too."""
LINE = "of a connection, a request or its response, which was closed, got 503 or was truncated"
BACKTRACE = pytest.mark.parametrize("backtrace", ["0", "1"])


def start_poor(
    start: Start, interface: str, backtrace: str = "0", left_bytes: int = LEFT_BYTES
) -> tuple[Server, int]:
    """Serve in a worker that has little memory left; return it with its process id."""
    options = (*APPLICATION[interface], "--body-bytes-max", str(4 * LONG_BYTES))
    server = start(*options, env={"RUST_BACKTRACE": backtrace})
    with server.connect() as client:
        assert client.get("/hello").content == b"hello"
    (worker,) = server.workers()
    limit_memory(worker, left_bytes)
    return server, worker


def post(path: str, *fields: str) -> bytes:
    """Return the head of a request with content, the last of its connection."""
    lines = [f"POST {path} HTTP/1.1", "Host: test", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode()


def upload(server: Server, path: str, framing: str) -> bytes:
    """Send a long content; return what came, up to the end of the connection."""
    with Connection(server.address, timeout_s=20) as client:
        if framing == "chunked":
            client.send(post(path, "Transfer-Encoding: chunked"))
            part = b"100000\r\n" + bytes(MEBIBYTE) + b"\r\n"
        else:
            client.send(post(path, f"Content-Length: {LONG_BYTES}"))
            part = bytes(MEBIBYTE)
        with suppress(ConnectionError):
            for _ in range(LONG_BYTES // MEBIBYTE):
                client.send(part)
        return rest_of(client)


def rest_of(client: Connection) -> bytes:
    """Read to the end of a connection, or to its reset."""
    received = bytearray()
    with suppress(ConnectionError):
        while more := client.socket.recv(1 << 20):
            received += more
    return bytes(received)


def status_of(received: bytes) -> int | None:
    """Return the status of a response; None where there is none."""
    return int(received[9:12]) if received else None


def first_status(client: Connection) -> int | None:
    """Return the status of what came; None if the connection ended without a response."""
    try:
        return status_of(client.take(100))
    except ConnectionError:
        return None


def serves_on(server: Server, worker: int) -> None:
    """See that the same worker serves."""
    with server.connect() as client:
        reply = client.get("/hello")
    assert (reply.status, reply.content) == (200, b"hello")
    assert server.workers() == [worker]


@BACKTRACE
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("interface", APPLICATION)
def test_a_content_that_cannot_be_held_is_refused(
    start: Start, interface: str, framing: str, backtrace: str
) -> None:
    server, worker = start_poor(start, interface, backtrace)
    paths = ["/echo", "/echo-later"] if interface in LATER else ["/echo"]
    for path in paths:
        received = upload(server, path, framing)
        assert status_of(received) in (None, 500, 503)
        serves_on(server, worker)
    wait_until(lambda: any("ERROR" in line for line in server.lines))


@BACKTRACE
@pytest.mark.parametrize("interface", APPLICATION)
def test_responses_that_cannot_be_held_are_503_500_or_cut(
    start: Start, interface: str, backtrace: str
) -> None:
    server, worker = start_poor(start, interface, backtrace)
    size = LEFT_BYTES * 4 // 5
    """The application has it once; there is no memory for another."""
    paths = [f"/big/{size}", f"/part/{size}", f"/part-later/{size}"]
    for path in paths if interface in LATER else paths[:2]:
        with Connection(server.address, receive_buffer_bytes=65536) as client:
            client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
            received = rest_of(client)
        assert len(received) < size
        expected = (500, 503) if path.startswith("/big") else (200, 500, 503)
        assert status_of(received) in expected
        assert not received.endswith(b"\r\n0\r\n\r\n"), "it looks complete"
        serves_on(server, worker)
    wait_until(lambda: any("no memory for" in line for line in server.lines))


def test_a_response_whose_kept_part_is_lost_is_cut(start: Start) -> None:
    server, worker = start_poor(start, "asgi")
    heads = [
        "GET /hello-later HTTP/1.1\r\nHost: test\r\n\r\n",
        f"GET /caught/{LEFT_BYTES * 4 // 5} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
    ]
    with server.connect() as client:
        # The second one has to be sent after the first, so the beginning of its content is kept.
        client.send("".join(heads).encode())
        received = rest_of(client)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\n\r\nhello" in received
    assert not received.endswith(b"\r\n0\r\n\r\n"), "the second one looks complete"
    serves_on(server, worker)


@pytest.mark.parametrize(
    ("interface", "path"),
    [*((name, "/echo") for name in APPLICATION), *((name, "/echo-later") for name in LATER)],
)
def test_many_contents_at_once_leave_a_worker_that_serves(
    start: Start, interface: str, path: str
) -> None:
    server, worker = start_poor(start, interface)
    size, count = 1_000_000, 2 * LEFT_BYTES // 1_000_000
    statuses: Counter[int | None] = Counter()
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(count)]
        for client in clients:
            client.send(post(path, f"Content-Length: {size}"))
            with suppress(ConnectionError):
                client.send(bytes(size - 1))
        serves_on(server, worker)
        for client in clients:
            with suppress(ConnectionError):
                client.send(b"x")
            statuses[status_of(rest_of(client))] += 1
    serves_on(server, worker)
    assert sum(statuses.values()) == count
    assert set(statuses) <= {200, 500, 503, None}
    assert statuses[200] >= 10 and statuses[503] >= 10, statuses
    wait_until(lambda: any(LINE in line for line in server.lines))


@pytest.mark.parametrize(
    ("interface", "kind"),
    [
        *((name, "heads") for name in ("native", "asgi", "wsgi")),
        *((name, "requests") for name in LATER),
    ],
)
def test_many_small_things_leave_a_worker_that_serves(
    start: Start, interface: str, kind: str
) -> None:
    server, worker = start_poor(start, interface, left_bytes=MEBIBYTE)
    sent = b"GET /wait HTTP/1.1\r\nHost: test\r\nField: " + b"x" * 3000
    if kind == "requests":
        sent += b"\r\n\r\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    statuses: Counter[int | None] = Counter()
    try:
        with ExitStack() as stack:
            for size in [MEBIBYTE] * 400 + [MEBIBYTE // 16] * 600:
                # Long content takes all but the reserve, and what the C library has reserved.
                client = stack.enter_context(server.connect())
                client.send(post("/echo", f"Content-Length: {size}"))
                with suppress(ConnectionError):
                    client.send(bytes(size - 1))
            clients = []
            for _ in range(7000):
                client = stack.enter_context(server.connect())
                # One that is refused may be closed already.
                with suppress(ConnectionError):
                    client.send(sent)
                clients.append(client)
            with server.connect() as last:
                # When it ends, all others have been accepted.
                with suppress(ConnectionError):
                    last.send(b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                rest_of(last)
            for client in clients:
                client.socket.setblocking(False)
                with suppress(BlockingIOError):
                    statuses[first_status(client)] += 1
            assert server.workers() == [worker]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # How many are refused depends on what the C library has reserved; the worker must live on.
    assert set(statuses) <= {None, 200, 500, 503}, statuses
    if statuses[503]:
        assert any(LINE in line or "refused" in line for line in server.lines)
    # So does whether the heap has enough in one piece afterwards: otherwise new clients get 503.
    with suppress(AssertionError):
        wait_until(lambda: status_of_hello(server) == 200)
    assert status_of_hello(server) in (200, 503)
    assert server.workers() == [worker]


def status_of_hello(server: Server) -> int | None:
    """Return the status for a new client; None if it was disconnected."""
    with server.connect() as client, suppress(ConnectionError, AssertionError):
        return client.get("/hello").status
    return None


def test_a_response_that_has_to_wait_keeps_its_head(start: Start) -> None:
    server = start("memory/exhausted.py")
    with server.connect() as client:
        assert client.get("/exhaust").content == b"small"
        client.send(b"GET /small HTTP/1.1\r\nHost: test\r\n\r\n")
        client.send(b"GET /stream HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        received = rest_of(client)
    first, _, second = received.partition(b"small")
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not second or second.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 50"))


def test_a_worker_without_memory_leaves_new_connections_to_others(start: Start) -> None:
    server = start("memory/exhausted.py", "--workers", "2")
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(12)]
        workers = [(client, client.get("/pid").content) for client in clients]
        first, poor = workers[0]
        assert first.get("/exhaust").content == b"small"
        # It has fewer connections than the other, which would accept all new ones for that.
        for client, worker in workers[1:]:
            if worker == poor:
                client.socket.close()
        others = {worker for _, worker in workers} - {poor}
        assert len(others) == 1
        replies = [stack.enter_context(server.connect()).get("/pid") for _ in range(30)]
    assert {(reply.status, reply.content) for reply in replies} == {(200, *others)}


def test_an_application_whose_first_part_is_lost_does_not_wait_for_ever(start: Start) -> None:
    server = start("memory/exhausted.py")
    with server.connect() as client, server.connect() as other:
        assert other.get("/exhaust").content == b"small"
        # The part of the second one has to be kept, and there is no memory for that.
        client.send(b"GET /hold HTTP/1.1\r\nHost: test\r\n\r\n")
        client.send(b"GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_until(lambda: other.get("/begun").content == b"1")
        assert other.get("/release").content == b"small"
        assert [client.read().status for _ in range(2)] == [200, 503]
        wait_until(lambda: other.get("/ended").content == b"1")
