"""A process that a handler forks and that comes back from the handler ends, and disturbs nobody."""

from __future__ import annotations

import os
import signal

import pytest

from support.server import APPLICATIONS, Server, Start
from support.waiting import wait_until

CASES = [
    ("native.py", "plain", ()),
    ("native.py", "first", ()),
    ("native.py", "later", ()),
    ("native.py", "part", ()),
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


AS_INIT = """
import ctypes, os
from bolide.server import supervisor

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
supervisor.INIT_PID = os.getpid()
from bolide.cli import main
main()
"""


class Init(Server):
    """A server that gets the processes whose parents have ended, as the first of a container."""

    program = ("-c", AS_INIT, "serve")


def test_the_first_process_of_a_container_reaps_orphans() -> None:
    server = Init(["forking/native.py", "--port", "0", "--workers", "2"], APPLICATIONS)
    try:
        server.wait_ready()
        workers = server.workers()
        with server.connect() as client:
            orphans = [int(client.get("/orphan").content) for _ in range(5)]
        wait_until(lambda: server.workers() == workers)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in orphans)
        os.kill(workers[0], signal.SIGKILL)
        server.wait_line("signal SIGKILL; the next one starts")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.close()
