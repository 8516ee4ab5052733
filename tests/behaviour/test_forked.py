"""A process that a handler forks and that comes back from the handler ends, and disturbs nobody."""

from __future__ import annotations

import signal

import pytest

from support.server import Start

CASES = [
    ("native.py", "plain", ()),
    ("native.py", "first", ()),
    ("native.py", "later", ()),
    ("asgi.py", "first", ()),
    ("asgi.py", "later", ()),
    ("wsgi.py", "first", ("--threads", "1")),
    ("wsgi.py", "later", ("--threads", "1")),
    ("wsgi.py", "first", ("--threads", "2")),
    ("wsgi.py", "later", ("--threads", "2")),
]
ENDS = {"exits": b"7", "raises": b"1", "returns": b"1"}
"""How the process ends, and its exit code."""
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("work", "result"), [("raise_and_catch", b"caught"), ("serve_another", b"served")]
)
def test_a_process_that_does_not_come_back_may_use_the_framework(
    start: Start, work: str, result: bytes
) -> None:
    server = start("forking/native.py")
    with server.connect() as client:
        assert client.get(f"/child/{work}").content == result + b" 0"


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(("application", "when", "options"), CASES)
def test_a_forked_process_that_comes_back_ends(
    start: Start, application: str, when: str, options: tuple[str, ...], how: str
) -> None:
    server = start(f"forking/{application}", *options)
    with server.connect() as client:
        reply = client.get(f"/{when}/{how}")
        assert (reply.status, reply.content) == (200, ENDS[how])
        assert client.get("/hello").content == b"hello"
    with server.connect() as other:
        assert other.get("/hello").content == b"hello"
    (worker,) = server.workers()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert ("returned to the server" in server.errors) == (how == "returns")
    assert ("of the child" in server.errors) == (how == "raises")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_term_ends_a_process_that_a_handler_has_forked(start: Start, loop: str) -> None:
    server = start("forking/native.py", "--loop", loop)
    before = server.workers()
    with server.connect() as client:
        for path in ("/terminated", "/terminated-by-a-thread") * 3:
            assert client.get(path).content == b"-15"
        for _ in range(5):
            assert client.get("/pool").content == b"[1, 2]"
    assert server.workers() == before
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
