"""Routes with slow requests in the status of a server, for each interface."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import h2
from support.management import COMMAND, Managed
from support.peer import reset
from support.server import Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

ASGI = """
import asyncio, time
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"].startswith("/later"):
        await asyncio.sleep(0.03)
    elif scope["path"].startswith("/block"):
        time.sleep(0.03)
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})
"""
WSGI = """
import time
def app(environ, start_response):
    if environ["PATH_INFO"].startswith("/block"):
        time.sleep(0.03)
    start_response("200 OK", [("Content-Length", "1")])
    return [b"x"]
"""
CLOSING = (
    WSGI.replace(
        'return [b"x"]',
        "return Content(environ)",
    )
    + """
class Content(list):
    def __init__(self, environ):
        super().__init__([b"x"])
        self.path = environ["PATH_INFO"]
    def close(self):
        if self.path == "/close":
            time.sleep(0.05)
"""
)
MOUNTED = (
    WSGI.replace("app(", "guest(")
    + """
import bolide
app = bolide.App()
@app.get("/own/{name}")
async def own(request, name):
    import asyncio
    await asyncio.sleep(0.03)
    return "own"
app.mount("/guest", guest)
"""
)


def found(managed: Managed) -> dict[str, tuple[int, float]]:
    """Return how many slow requests each route of the only worker had, and their seconds."""
    [worker] = managed.status()["workers"]
    return {each["route"]: (each["requests"], each["total_s"]) for each in worker["slow_routes"]}


def has(managed: Managed, expected: dict[str, int]) -> bool:
    """Return whether these routes had so many slow requests, and no other route more than one.

    On a busy machine any request may be slow, for once.
    """
    counts = {route: requests for route, (requests, _) in found(managed).items()}
    others = counts.keys() - expected.keys()
    return counts | expected == counts and all(counts[each] == 1 for each in others)


def test_native_routes_have_their_patterns(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        for path in ("/", "/slow/30", "/block/40", "/slow/0", "/nowhere", "/slow/50", "/loop"):
            client.get(path)
    expected = {"GET /slow/{milliseconds:int}": 2, "GET /block/{milliseconds:int}": 1}
    wait_until(lambda: has(managed, expected))
    routes = found(managed)
    assert 0.08 <= routes["GET /slow/{milliseconds:int}"][1] < 5
    assert 0.04 <= routes["GET /block/{milliseconds:int}"][1] < 5


def test_of_pipelined_requests_only_the_slow_one_is_slow(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        paths = ("/", "/block/60", "/", "/nowhere", "/")
        client.send(b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % it.encode() for it in paths))
        assert [client.read().status for _ in paths] == [200, 200, 200, 404, 200]
    wait_until(lambda: has(managed, {"GET /block/{milliseconds:int}": 1}))


def test_a_request_whose_client_left_counts(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        client.send(b"GET /slow/3000 HTTP/1.1\r\nHost: a\r\n\r\n")
        managed.server.wait_line("in flight")
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() > begun + 0.05)
        reset(client)
    wait_until(lambda: has(managed, {"GET /slow/{milliseconds:int}": 1}))
    assert found(managed)["GET /slow/{milliseconds:int}"][1] < 2.9


def test_requests_of_http2_count(start: Start) -> None:
    managed = Managed(start, "basic.py", "--h2c")
    with h2.Client(managed.server.connect()) as client:
        client.send(h2.get(1, "/slow/30"), h2.get(3, "/block/30"), h2.get(5, "/"))
        assert [client.response(stream).status for stream in (1, 3, 5)] == [200] * 3
    expected = {"GET /slow/{milliseconds:int}": 1, "GET /block/{milliseconds:int}": 1}
    wait_until(lambda: has(managed, expected))


@pytest.mark.parametrize(
    ("source", "options", "paths", "expected"),
    [
        (
            ASGI,
            (),
            ("/later/1", "/later/2", "/block/x", "/quick"),
            {"GET /later/*": 2, "GET /block/x": 1},
        ),
        (WSGI, ("--threads", "2"), ("/block/1", "/block/2?q", "/quick"), {"GET /block/*": 2}),
        (WSGI, ("--threads", "1"), ("/block/1", "/block/2?q", "/quick"), {"GET /block/*": 2}),
        (
            MOUNTED,
            (),
            ("/own/ada", "/own/bob", "/guest/block/1", "/guest/quick"),
            {"GET /own/{name}": 2, "GET /guest/block/*": 1},
        ),
    ],
    ids=["asgi", "threads", "wsgi", "mounted"],
)
def test_other_applications_have_their_paths(
    start: Start,
    tmp_path: Path,
    source: str,
    options: tuple[str, ...],
    paths: tuple[str, ...],
    expected: dict[str, int],
) -> None:
    (tmp_path / "app.py").write_text(source)
    managed = Managed(start, "app.py", *options, cwd=tmp_path)
    with managed.server.connect() as client:
        for path in paths:
            client.get(path)
    wait_until(lambda: has(managed, expected))


@pytest.mark.parametrize("options", [(), ("--h2c",)], ids=["HTTP/1.1", "HTTP/2"])
def test_what_an_application_does_after_its_response_is_not_the_next_requests(
    start: Start, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "app.py").write_text(CLOSING)
    managed = Managed(start, "app.py", "--threads", "1", *options, cwd=tmp_path)
    with managed.server.connect() as connection:
        if options:
            client = h2.Client(connection)
            client.send(h2.get(1, "/close"), h2.get(3, "/next"))
            assert [client.response(stream).status for stream in (1, 3)] == [200] * 2
        else:
            request = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
            connection.send(request % b"/close" + request % b"/next")
            assert [connection.read().status for _ in range(2)] == [200] * 2
        connection.get("/block") if not options else client.request(5, "/block")
    wait_until(lambda: has(managed, {"GET /block": 1}))
    assert "GET /next" not in found(managed)


def test_a_request_that_waits_for_a_thread_is_not_slow(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WSGI.replace("0.03", "0.4"))
    managed = Managed(start, "app.py", "--threads", "2", cwd=tmp_path)
    with ExitStack() as stack:
        clients = [stack.enter_context(managed.server.connect()) for _ in range(3)]
        for client in clients[:2]:
            client.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
        # Both have a thread when its request is read.
        wait_until(lambda: managed.metrics()["bolide_received_bytes_total"] > 50)
        clients[2].send(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: managed.metrics()["bolide_requests_waiting"] == 1)
        assert [client.read().status for client in clients] == [200] * 3
    wait_until(lambda: has(managed, {"GET /block": 2}))
    assert "GET /quick" not in found(managed)


def test_a_request_that_the_application_was_not_called_for_is_not_slow(start: Start) -> None:
    options = ("--h2c", "--concurrency-max", "1", "--queue-timeout-ms", "200")
    managed = Managed(start, "basic.py", *options)
    with h2.Client(managed.server.connect()) as client:
        client.send(h2.get(1, "/slow/1000"), h2.get(3, "/loop"))
        assert [client.response(stream).status for stream in (3, 1)] == [503, 200]
    wait_until(lambda: has(managed, {"GET /slow/{milliseconds:int}": 1}))
    assert "GET /loop" not in found(managed)


def test_a_worker_that_replaces_another_has_none(start: Start) -> None:
    managed = Managed(start)
    for reloads in (1, 2):  # the second worker that follows uses the memory of the first one
        with managed.server.connect() as client:
            client.get("/block/40")
        wait_until(lambda: has(managed, {"GET /block/{milliseconds:int}": 1}))
        assert managed.ask("/reload", "POST", COMMAND).status == 202
        managed.server.wait_line(r"reloaded in")
        wait_until(lambda expected=reloads: managed.status()["exits"] == {"stopped": expected})
        assert "GET /block/{milliseconds:int}" not in found(managed)
