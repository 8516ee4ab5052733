"""What an application does after its response: nobody waits for it, and nothing cuts it off."""

from __future__ import annotations

import signal

import pytest

from support.h2 import Client
from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_thread_that_a_view_has_started_finishes_before_the_worker_ends(
    start: Start, threads: str
) -> None:
    server = start("wsgi/after.py", "--threads", threads)
    with server.connect() as client:
        assert client.get("/thread").content == b"done"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "the work is done\n" in server.errors


@pytest.mark.parametrize("path", ["/slow-close", "/slow"])
def test_what_a_view_does_after_its_response_or_for_a_client_that_has_left_is_finished(
    start: Start, path: str
) -> None:
    server = start("wsgi/after.py", "--threads", "2")
    with server.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        if path == "/slow-close":
            assert client.read().content == b"block"
        else:
            server.wait_line("it works")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "the work is done\n" in server.errors


CLOSED = {"close": b"first, last", "close-two": b"first, last", "close-one": b"first"}
CLOSED |= {"close-nothing": b""}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("is_h2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_a_response_is_complete_before_its_iterable_is_closed(
    start: Start, name: str, *, is_h2: bool
) -> None:
    """Neither its client waits, nor the next request of the same connection."""
    server = start("wsgi/after.py", "--threads", "2", "--h2c")
    with server.connect() as client:
        if is_h2:
            with Client(client) as streams:
                assert streams.request(1, f"/{name}").content == CLOSED[name]
                assert streams.request(3, "/release").content == b"done"
        else:
            reply = client.get(f"/{name}")
            assert reply.content == CLOSED[name]
            assert (reply.get("transfer-encoding") == "chunked") == (name == "close")
            assert client.get("/release").content == b"done"
    server.wait_line(rf"GET /{name}: close\(\) of what the application returned raised")
