"""Clients that leave streams of frameworks, and clients that only send no more."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from support.peer import end
from support.request import head
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

FACTORIES = (
    "starlette",
    "starlette_with_middleware",
    "sse_starlette",
    "fastapi",
    "litestar",
    "quart",
    "django",
)
ENDS_S = 8.0
"""For what takes a second at most: machines may be slow, and it is far below any timeout."""


@pytest.fixture(scope="module", params=FACTORIES)
def factory(request: pytest.FixtureRequest) -> str:
    """Name a framework."""
    name: str = request.param
    return name


@pytest.fixture(params=["asyncio", "uvloop"])
def server(serve: Start, factory: str, request: pytest.FixtureRequest) -> Server:
    """Serve its streams on an event loop."""
    return serve(f"leaving:{factory}", "--factory", "--loop", request.param)


def open_calls(server: Server) -> tuple[int, list[str]]:
    """Ask how many calls have not ended, and what was raised."""
    with server.connect() as client:
        found: Any = client.get("/open").json()
        count, raised = found
        return count, raised


@pytest.mark.parametrize("way", ["end", "reset"])
@pytest.mark.parametrize("path", ["/wait", "/flood"])
def test_a_stream_ends_with_its_client_and_that_is_no_error(
    server: Server, path: str, way: str
) -> None:
    before, _ = open_calls(server)
    client = server.connect()
    client.send(head("GET", path))
    assert client.read_head().status == 200
    assert client.take(1)
    assert open_calls(server)[0] == before + 1
    end(client, way)
    left = time.monotonic()
    wait_until(lambda: open_calls(server)[0] == before)
    assert time.monotonic() - left < ENDS_S
    assert open_calls(server)[1] == []
    lines = "".join(server.lines)
    assert "ERROR" not in lines
    assert "Traceback" not in lines


@pytest.mark.parametrize("way", ["end", "reset"])
def test_work_after_a_response_is_not_lost_with_its_client(
    server: Server, factory: str, way: str
) -> None:
    if not factory.startswith("starlette"):
        pytest.skip("its background work is Starlette's")
    client = server.connect()
    client.send(head("GET", "/late-work"))
    wait_until(lambda: "called" in "".join(server.lines))
    end(client, way)
    server.wait_line("worked")
    assert "Traceback" not in "".join(server.lines)


def test_a_client_that_sends_no_more_gets_its_response(server: Server) -> None:
    with server.connect() as client:
        client.send(head("GET", "/late"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.read().content == b"late"
