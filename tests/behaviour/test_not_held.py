"""A response that is complete does not wait for a call that another request has begun.

The calls end only when the test has received what must not wait for them, so nothing here is
measured by a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.client import Connection
from support.loops import Serving
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

LetGo = Callable[[], None]
CALLS = {
    "native": ("computing/native.py", "/keeps?way={}&path={}"),
    "native-async": ("computing/native.py", "/async-keeps?way={}&path={}"),
    "native-error": ("computing/native.py", "/error-keeps?way={}&path={}"),
    "native-part": ("computing/native.py", "/plain?way={}&path={}"),
    "asgi": ("computing/asgi.py", "/?keeps,first,{},{}"),
    "wsgi": ("computing/wsgi.py", "/?keeps,{},{}", "--threads", "1"),
}


def request(target: str) -> bytes:
    """Return a request for a target."""
    return f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


@pytest.fixture(params=CALLS)
def served(request: pytest.FixtureRequest, serving: Serving) -> tuple[Server, str]:
    """Serve an application, and give the target of a call that keeps the thread."""
    file, target, *options = CALLS[request.param]
    return serving(file, *options), target


@pytest.fixture
def clients(served: tuple[Server, str]) -> Iterator[list[Connection]]:
    """Return three connections on which a request was served."""
    with ExitStack() as stack:
        clients = [stack.enter_context(served[0].connect()) for _ in range(3)]
        for client in clients:
            assert client.get("/").status == 200
        yield clients


def let_end(client: Connection, target: str, let_go: LetGo) -> None:
    """Let a call go on, and read its response."""
    if "plain" not in target:
        let_go()
        assert client.read().status == 200
        return
    for part in (b"one", b"two"):
        client.read_until(part)
        let_go()
    client.read_until(b"0\r\n\r\n")


def test_a_response_does_not_wait_for_a_call_of_another_connection(
    served: tuple[Server, str], clients: list[Connection], way: str, path: Path, let_go: LetGo
) -> None:
    busy, quick, slow = clients
    target = served[1].format(way, path)
    busy.send(request(target.replace("plain", "keeps")))
    wait_until(path.with_name(f"{path.name}.kept").exists)
    # The reactor finds both in its next pass.
    quick.send(request("/"))
    slow.send(request(target))
    let_end(busy, "", let_go)
    assert quick.read().status == 200
    let_end(slow, target, let_go)


def test_a_response_does_not_wait_for_a_later_call_on_its_connection(
    served: tuple[Server, str], clients: list[Connection], way: str, path: Path, let_go: LetGo
) -> None:
    client, target = clients[0], served[1].format(way, path)
    client.send(request("/") + request("/") + request(target) + request("/"))
    for _ in range(2):
        assert client.read().status == 200
    let_end(client, target, let_go)
    assert client.read().status == 200


@pytest.mark.parametrize("what", ["hint", "trailers", "file", "sends"])
def test_what_was_posted_does_not_wait_for_a_call_of_another_connection(
    serving: Serving, way: str, path: Path, let_go: LetGo, what: str
) -> None:
    server = serving("computing/asgi.py", "--asgi-extensions", "pathsend")
    target = f"/?keeps,first,{way},{path}"
    with ExitStack() as stack:
        busy, waiting, quick, slow = (stack.enter_context(server.connect()) for _ in range(4))
        waiting.send(request("/?another,first,,"))
        for client in (busy, quick, slow):
            assert client.get("/").status == 200
        busy.send(request(target))
        wait_until(path.with_name(f"{path.name}.kept").exists)
        # The reactor finds both in its next pass.
        quick.send(request(f"/?{what},first,,"))
        slow.send(request(target))
        let_end(busy, "", let_go)
        ends = {
            "hint": b"103 ",
            "trailers": b"one",
            "file": b"KINDS[what]",
            "sends": b"another's",
        }
        (waiting if what == "sends" else quick).read_until(ends[what])
        let_end(slow, target, let_go)
