"""What an application keeps of a request stays that request's (points 9 and 26).

The server uses its objects for one request after another where nobody can tell.
"""

from __future__ import annotations

import pytest

from support.client import Connection
from support.remembered_fields import FIELD_LINES, REMEMBERED
from support.request import head
from support.server import Server

APP = "asgi/keeping.py"
DATA = ("scope", "headers", "asgi", "state", "items")
OTHERS = ("iterator", "receive", "send", "awaitable", "weakly", "argument")
STAGES = ("now", "later")


def keep(client: Connection, what: str, stage: str) -> None:
    """Let some requests keep something, of which others follow."""
    for number in range(3):
        assert client.get(f"/keep/{what}/{stage}?{number}", f"X-A: {number}").content == b"kept"
        assert client.get("/seen").status == 200


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", [*DATA, *OTHERS])
def test_9_what_is_kept_stays_as_it_was(client: Connection, what: str, stage: str) -> None:
    keep(client, what, stage)
    assert client.get("/compare", "X-A: 2").json() == [True] * 3


@pytest.mark.parametrize("what", [*DATA, *OTHERS])
def test_9_nor_does_a_request_of_the_same_batch_change_it(client: Connection, what: str) -> None:
    client.send(head("GET", f"/keep/{what}") * 3 + head("GET", "/compare"))
    assert [client.read().content for _ in range(3)] == [b"kept"] * 3
    assert client.read().json() == [True] * 3


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["scope", "headers", "asgi", "state"])
def test_9_what_is_changed_later_no_other_request_sees(
    client: Connection, what: str, stage: str
) -> None:
    keep(client, what, stage)
    for _ in range(2):
        assert client.get("/change", "X-A: 2").json() is False


def test_9_only_harmless_fields_are_remembered(server: Server) -> None:
    for _ in range(2):
        with server.connect() as client:
            remembered = [client.get("/again", *FIELD_LINES).json() for _ in range(3)]
    assert remembered == [[name.lower() for name in REMEMBERED]] * 3


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["receive", "awaitable"])
def test_15_a_kept_receive_gives_the_disconnect(client: Connection, what: str, stage: str) -> None:
    keep(client, what, stage)
    assert client.get("/use").json() == ["http.disconnect"] * 3


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["send", "sending"])
def test_26_a_kept_send_reaches_nobody(client: Connection, what: str, stage: str) -> None:
    keep(client, what, stage)
    reply = client.get("/use")
    assert set(reply.json()) <= {"RuntimeError", "ClientDisconnected"}
    assert len(reply.json()) == 3


@pytest.mark.parametrize("stage", STAGES)
def test_9_what_is_left_in_a_scope_goes_with_it(
    server: Server, client: Connection, stage: str
) -> None:
    """Not with the next request, which may never come."""
    path = f"/leave/mine/{stage}"
    assert client.get(path).content == b"left"
    server.wait_line(f"let go: {path}")
