"""Starlette: lifespan state, middleware, files, and what happens when a client leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Connection
from support.server import Server, Start

pytestmark = pytest.mark.slow

PATIENCE_S = 10


@pytest.fixture
def server(serve: Start) -> Server:
    """Serve the application."""
    return serve("on_starlette")


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client


def seen(server: Server) -> dict[str, Any]:
    """Ask what the application has seen."""
    with server.connect() as client:
        found: dict[str, Any] = client.get("/seen").json()
        return found


def wait_seen(server: Server, name: str, value: int) -> None:
    """Wait until the application has seen it."""
    end = time.monotonic() + PATIENCE_S
    while seen(server)[name] != value:
        assert time.monotonic() < end, seen(server)


def test_requests_share_the_lifespans_state(client: Connection) -> None:
    first, second = client.get("/state").json(), client.get("/state").json()
    assert second == [first[0] + 1, True]


def test_watching_for_a_disconnect_ends(server: Server) -> None:
    before = seen(server)["watched"]
    with server.connect() as client:
        client.send(b"GET /watch HTTP/1.1\r\nHost: test\r\n\r\n")
        assert seen(server)["watched"] == before
    wait_seen(server, "watched", before + 1)


def test_endless_stream_ends_with_its_client(server: Server) -> None:
    before = seen(server)["streams_ended"]
    with server.connect() as client:
        client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read_head().status == 200
    wait_seen(server, "streams_ended", before + 1)
    assert "Traceback" not in server.errors


def test_background_task_runs_after_the_response(server: Server, client: Connection) -> None:
    reply = client.get("/background")
    wait_seen(server, "background", int(reply.content) + 1)


def test_background_task_does_not_hold_up_the_next_request(client: Connection) -> None:
    client.send(b"GET /background HTTP/1.1\r\nHost: test\r\n\r\n" * 3)
    assert [client.read().status for _ in range(3)] == [200, 200, 200]


def test_file(server: Server, client: Connection) -> None:
    whole = client.get("/file")
    assert whole.content.startswith(b'"""The endpoints of `test_contract.py`')
    assert whole.get("content-length") == str(len(whole.content))
    client.send(b"HEAD /file HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.read("HEAD").get("content-length") == str(len(whole.content))
    part = client.get("/file", "Range: bytes=3-14")
    assert (part.status, part.content) == (206, b"The endpoint")
    assert part.get("content-range") == f"bytes 3-14/{len(whole.content)}"
    assert client.get("/file", f"Range: bytes={len(whole.content)}-").status == 416


def test_middleware_of_requests_and_responses(serve: Start) -> None:
    server = serve("on_starlette:marked")
    with server.connect() as client:
        for path, content in (("/hello", b"hello"), ("/stream", b"part 0\npart 1\n")):
            reply = client.get(path)
            assert (reply.get("x-marked"), reply.content[:14]) == ("GET", content)
        assert client.get("/raises").status == 500
        assert client.get("/hello").status == 200
