"""The contexts of requests and of their tasks: nothing of another request is in them, or kept."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from native.asking import request, text_of
from support.client import Connection
from support.loops import Serving
from support.waiting import wait_until
from support.websocket import connect, text

pytestmark = pytest.mark.slow

APP = "tasks/contexts.py"
EAGER = os.environ.get("BOLIDE_EAGER_TASKS") != "off"
only_eager = pytest.mark.skipif(
    not EAGER, reason="parts run in a copy of the context of a task that the loop has created"
)


@pytest.mark.parametrize("before", [["waits", "sets"], ["sets", "sets"]])
def test_what_a_request_has_set_is_not_kept(
    serving: Serving, interface: str, before: list[str]
) -> None:
    server = serving(f"{APP}:{interface}")
    for path in before:
        text_of(server, path)
    assert text_of(server, "is_kept") == "False"


@pytest.mark.parametrize("before", [["plain"], ["sets"], ["waits"], ["sets", "sets", "waits"]])
def test_the_context_of_a_task_has_nothing_of_another_request(
    serving: Serving, loop: str, interface: str, before: list[str]
) -> None:
    server = serving(f"{APP}:{interface}")
    with server.connect() as client:
        client.send(b"".join(map(request, ["waits", *before, "waits"])))
        *_, last = [client.read().content.decode() for _ in range(len(before) + 2)]
    own, of_task, of_child, after = last.split()
    assert (own, of_child, after) == ("own", "own", "unset")
    # A task that was lent to a request that set something is not lent again: the next has its own.
    is_apart = EAGER and (loop == "uvloop" or before[-1] == "sets")
    assert of_task == ("None" if is_apart else "own")


@only_eager
@pytest.mark.parametrize("when", ["now", "later"])
def test_parts_of_a_response_reset_what_their_handler_has_set(serving: Serving, when: str) -> None:
    server = serving(f"{APP}:app")
    with server.connect() as client:
        for _ in range(2):
            assert client.get("/plain").content == b"plain"
            assert client.get(f"/parts/{when}/2").content == b"ownown"


@only_eager
@pytest.mark.parametrize("when", ["now", "later", "departed"])
def test_parts_are_closed_in_the_context_of_their_handler(serving: Serving, when: str) -> None:
    server = serving(f"{APP}:app")
    with server.connect() as client:
        before = client.get("/ends").json()
        with server.connect() as leaving:
            leaving.send(request(f"parts/{when}/1000000000"))
            if when == "departed":
                before.append("waits")
                wait_until(lambda: client.get("/ends").json() == before)
            else:
                assert leaving.read_head().status == 200
            leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: client.get("/ends").json() == [*before, "reset"])


@pytest.mark.parametrize("before", ["plain", "sets", "waits"])
def test_a_websocket_has_a_context_of_its_own(serving: Serving, before: str) -> None:
    server = serving(f"{APP}:app")
    text_of(server, before)
    with connect(server) as first, connect(server) as second:
        first.open("/counts")
        second.open("/counts")
        for number in ("1 1", "2 2"):
            for websocket in (first, second):
                text_of(server, before)
                websocket.say("count")
                assert websocket.frame() == text(number)
        for websocket in (first, second):
            websocket.say("reset")
            assert websocket.frame() == text("unset unset")


@pytest.mark.parametrize("before", ["/reads", "/raise"])
def test_a_failure_is_logged_in_the_context_of_its_request(serving: Serving, before: str) -> None:
    server = serving(f"{APP}:raising")
    with server.connect() as client:
        client.get(before)
        assert client.get("/raises").status == 500
        assert last_logged(client) == "GET /raises /raises"
    with connect(server) as websocket:
        websocket.open("/raises-socket")
        assert websocket.frame().content[:2] == (1011).to_bytes(2, "big")
    with server.connect() as client:
        assert last_logged(client) == "GET /raises-socket /raises-socket"


def last_logged(client: Connection) -> str:
    logged: list[str] = client.get("/logged").json()
    return logged[-1]
