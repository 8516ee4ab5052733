"""What clients get that still wait when the graceful time is over."""

from __future__ import annotations

import signal

import pytest

from protocol.pressure import APPLICATION, wait_held
from support.request import head
from support.server import Server, Start

pytestmark = pytest.mark.slow

POOLED = ["native", "asgi", "wsgi"]
OPTIONS = ("--graceful-timeout-ms", "300")


def served(start: Start, interface: str) -> Server:
    return start(*APPLICATION[interface], *OPTIONS)


def exit_code(interface: str) -> int:
    """Return the exit code: coroutines are cancelled, threads end with their killed worker."""
    return 1 if interface == "wsgi" else 0


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("interface", POOLED)
def test_a_request_without_a_response_has_a_503(start: Start, interface: str, method: str) -> None:
    server = served(start, interface)
    with server.connect() as client, server.connect() as other, server.connect() as idle:
        for each in (client, other):
            each.send(head(method, "/held/1"))
        wait_held(idle, 2)
        server.signal(signal.SIGTERM)
        for each in (client, other):
            reply = each.read(method)
            assert (reply.status, reply.is_last) == (503, True)
            assert reply.get("connection") == "close"
            assert each.is_closed()
    assert server.wait() == exit_code(interface)
    counts = "2 request(s) without a response (503), 0 response(s) cut"
    assert server.errors.count(f"that did not finish: {counts}") == 1
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("interface", POOLED)
def test_a_response_that_was_begun_is_cut_and_counted(start: Start, interface: str) -> None:
    server = served(start, interface)
    with server.connect() as client, server.connect() as other:
        client.send(head("GET", "/part-held"))
        assert client.read_head().status == 200
        wait_held(other)
        server.signal(signal.SIGTERM)
        with pytest.raises(ConnectionResetError):
            client.read_to_end()
    assert server.wait() == exit_code(interface)
    assert "0 request(s) without a response (503), 1 response(s) cut" in server.errors


@pytest.mark.parametrize("interface", POOLED)
def test_a_request_whose_content_is_awaited_has_a_503(start: Start, interface: str) -> None:
    server = served(start, interface)
    with server.connect() as client:
        client.send(head("POST", "/read", "Content-Length: 10") + b"12345")
        with server.connect() as other:
            assert other.get("/hello").content == b"hello"
        server.signal(signal.SIGTERM)
        assert client.read().status == 503
        assert client.is_closed()
    assert server.wait() == 0
    assert "1 request(s) without a response (503), 0 response(s) cut" in server.errors


@pytest.mark.parametrize("interface", APPLICATION)
def test_a_stop_in_which_all_ends_says_nothing(start: Start, interface: str) -> None:
    server = served(start, interface)
    with server.connect() as client:
        assert client.get("/hello").content == b"hello"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "did not finish" not in server.errors
