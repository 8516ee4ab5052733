"""A native application with ASGI and WSGI applications below prefixes, in one process."""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Iterator

import pytest

from support.client import Connection
from support.loops import Serving
from support.request import head
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "mount/all.py"
SEES = {
    "/now": "loop unset\n",
    "/soon": "task unset\n",
    "/later": "task unset\ntask set\n",
    "/parts": "loop unset\nloop set\nloop set\n",
    "/api/now": "task unset\n",
    "/api/v2/now": "task unset\n",
    "/api/later": "task unset\ntask set\n",
    "/api/parts": "task unset\ntask set\ntask set\n",
    "/old/now": "nothing unset\n",
    "/old/parts": "nothing unset\nnothing set\nnothing set\n",
}
"""What each call must see of asyncio and of the others."""

SHOWN = {
    "/api": "api /api /api /api",
    "/api/": "api /api /api/ /api/",
    "/api/x": "api /api /api/x /api/x",
    "/api/api/x": "api /api /api/api/x /api/api/x",
    "/%61pi/x": "api /api /api/x /%61pi/x",
    "/api/v2": "v2 /api/v2 /api/v2 /api/v2",
    "/api/v%32/x": "v2 /api/v2 /api/v2/x /api/v%32/x",
    "/api/v2x": "api /api /api/v2x /api/v2x",
    "/api/v2%2Fx": "api /api /api/v2/x /api/v2%2Fx",
    "/old": "/old  /old",
    "/old/": "/old / /old/",
    "/old/a%20b?q": "/old /a b /old/a%20b?q",
    "/%6Fld/old": "/old /old /%6Fld/old",
    "/caf%C3%A9": "/caf\u00e9  /caf%C3%A9",
    "/caf%C3%A9/x": "/caf\u00e9 /x /caf%C3%A9/x",
    "/caf%c3%a9/api/x": "caf\u00e9 /caf\u00e9/api /caf\u00e9/api/x /caf%c3%a9/api/x",
    "/api/status": "native",
}
"""The root path or SCRIPT_NAME, the path, and the path as received."""

NOWHERE = ["/", "/apix", "/ap", "/api%2Fx", "/old%2F", "//api", "/caf%C3%A9s", "/v2", "/x/api"]


@pytest.fixture(scope="module", params=["8", "1"])
def server(request: pytest.FixtureRequest, serving: Serving) -> Server:
    """Serve it with a pool of threads for WSGI, and without."""
    return serving(APP, "--threads", request.param)


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client


@pytest.mark.parametrize("target", SHOWN)
def test_the_longest_prefix_wins_and_is_in_the_request(client: Connection, target: str) -> None:
    reply = client.get(target)
    assert (reply.status, reply.content.decode()) == (200, SHOWN[target])


@pytest.mark.parametrize("target", NOWHERE)
def test_outside_of_every_prefix_is_404(client: Connection, target: str) -> None:
    reply = client.get(target)
    assert (reply.status, reply.content) == (404, b"404 Not Found\n")


def test_a_route_wins_whatever_the_method(client: Connection) -> None:
    reply = client.post("/api/status", b"x")
    assert (reply.status, reply.get("allow")) == (405, "GET, HEAD")


def test_neighbours_in_a_batch_see_nothing_of_each_other(client: Connection) -> None:
    paths = list(itertools.chain(*itertools.permutations(SEES, 2)))
    client.send(b"".join(head("GET", path) for path in paths))
    found = [(path, client.read().content.decode()) for path in paths]
    assert found == [(path, SEES[path]) for path in paths]


def test_failures_leave_nothing_to_their_neighbours(client: Connection) -> None:
    paths = list(
        itertools.chain(*itertools.product(["/raises", "/api/raises", "/old/raises"], SEES))
    )
    client.send(b"".join(head("GET", path) for path in paths))
    for path in paths:
        reply = client.read()
        expected = (200, SEES[path]) if path in SEES else (500, "500 Internal Server Error\n")
        assert (path, reply.status, reply.content.decode()) == (path, *expected)


@pytest.mark.parametrize("path", SEES)
def test_head_has_no_content(client: Connection, path: str) -> None:
    client.send(head("HEAD", path) + head("GET", "/now"))
    assert client.read("HEAD").status == 200
    assert client.read().content == b"loop unset\n"


@pytest.mark.parametrize("path", ["/count", "/api/count", "/api/v2/count", "/old/count"])
def test_uploads_reach_their_application(client: Connection, path: str) -> None:
    for size in (0, 5, 700_000):
        assert client.post(path, b"c" * size).content == str(size).encode()
    client.send(head("POST", path, "Transfer-Encoding: chunked"))
    for _ in range(30):
        client.send(b"2710\r\n" + b"c" * 10_000 + b"\r\n")
    client.send(b"0\r\n\r\n")
    assert client.read().content == b"300000"


@pytest.mark.parametrize(
    ("path", "name", "has"),
    [("/endless", "native", "task"), ("/api/endless", "asgi", "task")]
    + [("/old/endless", "wsgi", "nothing")],
)
def test_a_client_that_goes_ends_its_stream(
    server: Server, client: Connection, path: str, name: str, has: str
) -> None:
    with server.connect() as other:
        other.send(head("GET", path))
        other.read_until(b"begun")
        client.send(b"".join(head("GET", each) for each in SEES))
        assert [client.read().content.decode() for _ in SEES] == [*SEES.values()]
    wait_until(lambda: client.get("/seen").json().get(name) == has)


def test_a_view_that_waits_stops_nobody(serving: Serving) -> None:
    server = serving(APP, "--threads", "8")
    with server.connect() as held, server.connect() as client:
        before = client.get("/seen").json().get("held", 0)
        held.send(head("GET", "/old/held"))
        wait_until(lambda: client.get("/seen").json().get("held", 0) == before + 1)
        others = [path for path in SEES if not path.startswith("/old")]
        client.send(b"".join(head("GET", path) for path in [*others, "/old/now"]))
        for path in [*others, "/old/now"]:
            assert client.read().content.decode() == SEES[path]
        assert client.get("/release").content == b"released"
        assert held.read().content == b"held"


def test_lifespans_are_in_order_and_the_shutdowns_in_reverse(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop, "--threads", "1")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    names = ["native", "api", "v2", "caf\u00e9"]
    expected = [f"{name} startup" for name in names]
    expected += [f"{name} shutdown" for name in reversed(names)]
    assert re.findall(r"^\S+ (?:startup|shutdown)$", server.errors, re.MULTILINE) == expected


def test_a_startup_that_fails_ends_the_start(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop, env={"FAILS": "v2 startup"}, ready=False)
    assert server.wait() == 3
    message = "the application's startup failed: mounted at /api/v2: on request"
    assert server.errors.count(message) == 1
    expected = ["native startup", "api startup", "v2 startup", "api shutdown", "native shutdown"]
    found = re.findall(r"^\S+ (?:startup|shutdown)$", server.errors, re.MULTILINE)
    assert found == expected


def test_a_shutdown_that_fails_does_not_keep_the_others(start: Start) -> None:
    server = start(APP, env={"FAILS": "v2 shutdown"})
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "the shutdown of what is mounted at /api/v2 failed: on request" in server.errors
    assert "native shutdown" in server.errors


def test_views_that_hang_do_not_take_the_time_of_the_native_shutdown(start: Start) -> None:
    server = start(APP, "--threads", "2", "--graceful-timeout-ms", "2000")
    with server.connect() as one, server.connect() as two, server.connect() as client:
        one.send(head("GET", "/old/held"))
        two.send(head("GET", "/caf%C3%A9/held"))
        wait_until(lambda: client.get("/seen").json().get("held") == 2)
        server.signal(signal.SIGTERM)
        server.wait()
    assert "native shutdown" in server.errors
