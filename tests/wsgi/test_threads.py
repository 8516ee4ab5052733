"""Where a WSGI application is called: the pool of threads, its queue and its end; or inline."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pytest

from support.client import Connection
from support.embedding import EmbeddingProgram
from support.h2 import Client, get
from support.server import APPLICATIONS, Server, Start
from wsgi.observed import seen, wait_seen

pytestmark = pytest.mark.slow


class Pipe:
    """A named pipe at which one view waits."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end: BinaryIO | None = None

    def meet(self) -> None:
        """Wait until the view is there; it goes on to wait for content."""
        self._end = open(self.path, "wb")

    def release(self, content: bytes = b"released") -> None:
        """Let the view go on."""
        if self._end is None:
            self.meet()
        assert self._end is not None
        with self._end:
            self._end.write(content)


Pipes: TypeAlias = Callable[[], Pipe]


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Callable[[], Pipe]]:
    """Return a function that makes pipes."""
    made: list[Pipe] = []

    def pipe() -> Pipe:
        made.append(Pipe(tmp_path / str(len(made))))
        return made[-1]

    yield pipe
    for each in made:
        if each._end is not None:
            each._end.close()


@contextmanager
def waiting(server: Server, pipes: Pipes, count: int) -> Iterator[list[tuple[Connection, Pipe]]]:
    """Let `count` views wait, each for a pipe of its own."""
    with ExitStack() as stack:
        views = []
        for _ in range(count):
            pipe = pipes()
            views.append((stack.enter_context(ask(server, f"/pipe?{pipe.path}")), pipe))
            pipe.meet()
        yield views


def finish(views: list[tuple[Connection, Pipe]]) -> None:
    """Let the views go on, and read their responses."""
    for client, pipe in views:
        pipe.release()
        assert client.read().content == b"released"


def ask(server: Server, path: str, method: str = "GET") -> Connection:
    """Send a request on a connection of its own; do not wait for its response."""
    client = server.connect()
    client.send(f"{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return client


def test_one_thread_is_the_servers_own(start: Start) -> None:
    server = start("wsgi_plain.py", "--threads", "1")
    with server.connect() as client:
        name, is_main, _, pid = client.get("/thread").json()
    assert (name, is_main, pid) == ("MainThread", True, server.workers()[0])
    assert seen(server)["threads"] == 1


def test_threads_have_names_and_do_not_hold_the_process(start: Start) -> None:
    server = start("wsgi_plain.py", "--threads", "3")
    with server.connect() as client:
        name, is_main, is_daemon, _ = client.get("/thread").json()
    # It is no daemon for those that the view starts.
    assert (name[:-1], is_main, is_daemon) == ("bolide-", False, False)
    assert seen(server)["threads"] == 1 + 3 + 1, "its own, the pool's, and the one for reports"


def test_a_view_that_waits_does_not_stop_others(start: Start) -> None:
    server = start("wsgi_plain.py")
    with ExitStack() as stack:
        waiting = [stack.enter_context(ask(server, f"/wait/{gate}")) for gate in range(7)]
        for gate in range(7):
            with server.connect() as client:
                assert client.get("/hello").content == b"Hello, world!"
                assert client.get(f"/open/{gate}").content == b"open"
        assert [client.read().content for client in waiting] == [b"waited"] * 7


def test_55_a_block_is_sent_before_the_next_is_asked_for(server: Server, pipes: Pipes) -> None:
    pipe = pipes()
    with ask(server, f"/pipe-later?{pipe.path}") as client:
        assert client.read_until(b"7\r\nbefore,\r\n")
        pipe.release()
        assert client.read_until(b"\r\n0\r\n\r\n") == b"8\r\nreleased\r\n0\r\n\r\n"


@pytest.mark.parametrize("how", ["ends", "more", "raises"])
def test_55_what_is_complete_does_not_wait_for_its_end(
    server: Server, pipes: Pipes, threads: str, how: str
) -> None:
    pipe = pipes()
    with ask(server, f"/sized-later/{how}?{pipe.path}") as client:
        head, _, content = client.read_until(b"\r\n\r\nall").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert content == b"all"
        if threads == "1":
            assert data_segments_received(client.socket) == 1
        pipe.release()
    found = wait_seen(server, lambda found: f"sized-{how}" in found["closed"])
    assert found["closed"][f"sized-{how}"] == 1
    said = {"more": "its content is longer", "raises": "the application raised"}
    if how in said:
        server.wait_line(f"GET /sized-later/{how}: {said[how]}")


def data_segments_received(socket_of_client: socket.socket) -> int:
    """Return tcpi_data_segs_in of linux/tcp.h."""
    information = socket_of_client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(information[152:156], sys.byteorder)


def test_an_idle_connection_takes_no_thread(start: Start) -> None:
    server = start("wsgi_plain.py", "--threads", "2", "--queue-max", "1")
    with ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(server.connect())
            assert client.get("/hello").status == 200
        with server.connect() as client:
            assert client.get("/hello").status == 200
        assert seen(server)["threads"] == 1 + 2 + 1


def test_requests_beyond_the_queue_are_503_and_logged(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--threads", "2", "--queue-max", "1")
    with waiting(server, pipes, 2) as views, ask(server, "/hello") as queued:
        with server.connect() as client:
            reply = client.get("/late")
            assert (reply.status, reply.get("retry-after")) == (503, "1")
            finish(views)
            assert queued.read().status == 200
            assert client.get("/hello").status == 200
    server.wait_line(r"WARN +bolide.error: 1 request\(s\) refused with 503: .* queue is full")


def test_a_request_that_waits_too_long_is_503(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--threads", "2", "--queue-timeout-ms", "50")
    with waiting(server, pipes, 2) as views, server.connect() as client:
        assert client.get("/hello").status == 503
        server.wait_line(r"1 request\(s\) refused with 503: no thread took them in time")
        finish(views)
        assert client.get("/hello").status == 200


def test_a_view_that_holds_the_interpreter_stops_no_refusing(start: Start, pipes: Pipes) -> None:
    # The option for other loops is for other applications.
    options = ("--threads", "2", "--queue-max", "1", "--loop", "uvloop")
    server, pipe = start("wsgi_plain.py", *options), pipes()
    with ask(server, f"/hog?{pipe.path}") as hog, ExitStack() as stack:
        # What is ready together comes in any order.
        server.wait_line("hogging")
        # One of these may wait for the interpreter, one in the queue; the others are refused.
        others = [stack.enter_context(ask(server, "/hello")) for _ in range(6)]
        while len(refused := [client for client in others if arrived(client)]) < 4:
            pass
        assert [client.read().status for client in refused] == [503] * len(refused)
        pipe.release(b"")
        assert hog.read().content == b"hogged"
        served = [client for client in others if client not in refused]
        assert [client.read().status for client in served] == [200] * len(served)


def arrived(client: Connection) -> bool:
    """Return whether something has come, without taking it."""
    return bool(select.select([client.socket], [], [], 0)[0])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_60_write_to_a_client_that_has_gone_raises(start: Start, method: str) -> None:
    server = start("wsgi_plain.py", "--threads", "2")
    for name in ("first", "second", "third"):
        with ask(server, f"/endless/{name}/write", method) as client:
            assert client.read_head().status == 200
        found = wait_seen(server, lambda found, name=name: name in found["errors"])
        assert found["errors"][name] == "ClientDisconnected"
    assert "/endless/" not in "".join(server.lines)


def test_60_a_client_that_ended_its_side_before_gets_the_head(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--threads", "2")
    with waiting(server, pipes, 2) as views, ask(server, "/endless/half/write", "HEAD") as client:
        client.socket.shutdown(socket.SHUT_WR)
        finish(views)
        assert client.read_head().status == 200
        found = wait_seen(server, lambda found: "half" in found["errors"])
        assert client.is_closed()
    assert found["errors"]["half"] == "ClientDisconnected"


def test_write_with_one_thread_has_a_bound(start: Start) -> None:
    server = start("wsgi_plain.py", "--threads", "1")
    with ask(server, "/endless/bounded/write"):
        server.wait_line("RuntimeError: write.. with one thread keeps what the client does not")
    with server.connect() as client:
        assert client.get("/hello").status == 200


def test_write_with_one_thread_raises_when_the_client_has_gone(start: Start) -> None:
    server = start("wsgi_plain.py", "--threads", "1")
    with ask(server, "/endless/gone/write") as client:
        assert client.read_head().status == 200
    with server.connect() as client:
        assert client.get("/hello").status == 200


def test_60_a_request_whose_client_has_gone_is_not_begun(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--threads", "2")
    with server.connect() as before, server.connect() as after:
        # Both are accepted: what they send later is served in the order in which it came.
        for client in (before, after):
            assert client.get("/hello").status == 200
        with waiting(server, pipes, 2) as views:
            with ask(server, "/closing/queued/normal") as gone:
                before.send(b"not a request\r\n\r\n")
                assert before.read().status == 400
                # A reset: an end alone may be a client that still reads.
                gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            after.send(b"not a request\r\n\r\n")
            assert after.read().status == 400
            finish(views)
    assert "queued" not in seen(server)["closed"]


def test_content_beyond_the_limit_is_an_oserror_in_the_view(start: Start) -> None:
    server = start("wsgi_plain.py", "--body-bytes-max", "1000")
    with server.connect() as client:
        fields = "Host: test\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        client.send(f"POST /read-fails/long HTTP/1.1\r\n{fields}".encode())
        assert client.read_head().status == 100
        client.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n0\r\n\r\n")
        assert client.read().status == 413
    found = wait_seen(server, lambda found: "long" in found["errors"])
    assert found["errors"]["long"] == "ClientDisconnected"


def test_a_view_that_is_late_is_503_and_runs_on(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--threads", "2", "--handler-timeout-ms", "50")
    with waiting(server, pipes, 1) as [(client, pipe)]:
        assert client.read().status == 503
        pipe.release()
        with server.connect() as other:
            assert other.get("/hello").content == b"Hello, world!"


def test_a_request_that_no_thread_takes_in_time_is_not_called_a_late_view(
    start: Start, pipes: Pipes
) -> None:
    server = start("wsgi_plain.py", "--threads", "2", "--handler-timeout-ms", "300")
    with waiting(server, pipes, 2) as views, server.connect() as client:
        assert client.get("/hello").status == 503
        server.wait_line(
            r"WARN  bolide.error: GET /hello: no thread was free within 300 ms "
            r"\(threads, handler_timeout_ms\): 503$"
        )
        for _, pipe in views:
            pipe.release()


def test_a_worker_without_a_free_thread_leaves_new_clients_to_others(
    start: Start, pipes: Pipes
) -> None:
    """Its connections are few, because those that got 503 are closed."""
    options = ("--threads", "2", "--handler-timeout-ms", "300", "--worker-timeout-ms", "0")
    server = start("wsgi_plain.py", "--workers", "2", *options)
    with ExitStack() as stack:
        by_worker: dict[int, list[Connection]] = {pid: [] for pid in server.workers()}
        while max(map(len, by_worker.values())) < 3:
            client = stack.enter_context(server.connect())
            by_worker[client.get("/thread").json()[3]].append(client)
        stuck = max(by_worker.values(), key=len)
        for client in stuck[:2]:
            pipe = pipes()
            client.send(f"GET /pipe?{pipe.path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
            pipe.meet()
        assert [client.read().status for client in stuck[:2]] == [503, 503]
        assert stuck[2].get("/hello").status == 503
    for _ in range(20):
        with server.connect() as client:
            assert client.get("/hello").status == 200


def test_a_stop_lets_views_finish(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py")
    with waiting(server, pipes, 1) as [(client, pipe)]:
        server.signal(signal.SIGTERM)
        wait_until_refused(server)
        pipe.release()
        reply = client.read()
        assert (reply.content, reply.is_last) == (b"released", True)
    assert server.wait() == 0


def test_a_stop_does_not_wait_for_ever(start: Start, pipes: Pipes) -> None:
    server = start("wsgi_plain.py", "--graceful-timeout-ms", "3000")
    with waiting(server, pipes, 1) as [(client, _)]:
        server.signal(signal.SIGTERM)
        assert client.read().status == 503
        assert client.is_closed()
        assert server.wait() == 1
    assert "closing 1 connection(s) that did not finish: 1 request(s) without" in server.errors
    assert "Traceback" not in server.errors


def wait_until_refused(server: Server) -> None:
    """Wait until nobody listens any more."""
    with suppress(ConnectionError):
        while True:
            server.connect().socket.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("threads", ["1", "8"])
def test_an_embedding_program_ends_with_its_loop(loop: str, threads: str) -> None:
    program = EmbeddingProgram([threads, loop], APPLICATIONS)
    try:
        program.wait_ready()
        with program.connect() as client:
            assert client.get("/hello").status == 200
            program.signal(signal.SIGTERM)
            assert client.is_closed()
        assert program.wait() == 0
    finally:
        program.close()


def test_new_connections_do_not_keep_an_old_one_waiting(start: Start) -> None:
    server = start("wsgi_order.py", "--threads", "1")
    with server.connect() as old, server.connect() as first, ExitStack() as opened:
        assert old.get("/0").content == b"0"
        # While this one is at work, 30 connect, and the old one asks after them.
        first.send(b"GET /300 HTTP/1.1\r\nHost: test\r\n\r\n")
        for _ in range(30):
            new = opened.enter_context(server.connect())
            new.send(b"GET /20 HTTP/1.1\r\nHost: test\r\n\r\n")
        number = int(old.get("/0").content)
        assert 1 < number < 10


def test_a_client_with_many_streams_does_not_keep_others_waiting_for_all_of_them(
    start: Start,
) -> None:
    server = start("h2/wsgi.py", "--h2c", "--threads", "2")
    with Client(Connection(server.address)) as busy, server.connect() as other:
        busy.send(get(1, "/hold"), get(3, "/sleep/1000"))
        busy.ping()
        busy.send(*(get(stream, "/count") for stream in range(5, 105, 2)))
        busy.ping()
        # One of the fifty is called before it: connections take turns. The call that sleeps is 0.
        place = int(other.get("/count").content)
        assert place <= 3
        assert other.get("/release").content == b"hello"
        places = [int(busy.response(stream).content) for stream in range(5, 105, 2)]
        assert places == sorted(places)
