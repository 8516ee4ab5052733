"""Tasks and contexts of requests, and callables of every kind (points 32 and 33)."""

from __future__ import annotations

import json

import pytest

from asgi.held import Seen, release, wait_held
from native.test_asyncio import CHECKS, STAGES
from support.client import Connection
from support.loops import Serving
from support.probe import probes
from support.request import head
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/tasks.py"


@pytest.mark.parametrize("way", ["now", "later", "parts", "empty"])
def test_32_work_after_the_response_does_not_hold_the_next_request(
    server: Server, client: Connection, seen: Seen, way: str
) -> None:
    held, ended = seen("held"), seen("ended")
    for number in range(3):
        reply = client.get(f"/after/{way}")
        assert (reply.status, reply.content) == (204, b"") if way == "empty" else (200, b"done")
        wait_held(seen, held + number)
    assert seen("ended") == ended
    release(server)
    wait_until(lambda: seen("ended") == ended + 3)


def test_32_nor_does_it_hold_one_of_the_same_batch(
    server: Server, client: Connection, seen: Seen
) -> None:
    held, ended = seen("held"), seen("ended")
    client.send(head("GET", "/after/now") * 3 + head("GET", "/state"))
    assert [client.read().content for _ in range(3)] == [b"done"] * 3
    assert client.read().status == 200
    wait_until(lambda: seen("held") == held + 3)
    release(server)
    wait_until(lambda: seen("ended") == ended + 3)


@pytest.mark.parametrize("stage", STAGES)
def test_17_a_group_that_waits_for_the_end_is_cancelled_when_its_stream_ends(
    client: Connection, seen: Seen, stage: str
) -> None:
    before = seen("groups")
    for _ in range(2):
        assert client.get(f"/beside/some/{stage}").content == b"part" * 3
    wait_until(lambda: seen("groups") == before + 2)


@pytest.mark.parametrize("stage", STAGES)
def test_16_a_group_that_streams_is_cancelled_when_its_client_goes(
    server: Server, seen: Seen, stage: str
) -> None:
    before = seen("groups")
    with server.connect() as client:
        client.send(head("GET", f"/beside/endless/{stage}"))
        assert client.read_head().status == 200
        assert seen("groups") == before
    wait_until(lambda: seen("groups") == before + 1)


@pytest.mark.parametrize("way", ["now", "later"])
def test_33_contexts_are_isolated(client: Connection, server: Server, way: str) -> None:
    client.send(head("GET", f"/context/{way}") * 3)
    assert [client.read().content for _ in range(3)] == [b"unset"] * 3
    with server.connect() as other:
        assert other.get("/context/now").content == b"unset"


def test_33_a_task_is_a_requests_own(client: Connection) -> None:
    client.send(head("GET", "/task") * 3)
    for _ in range(3):
        assert client.read().json() == [False, False, False]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("file", "name"), [*CHECKS, *(("aio_anyio.py", name) for name in probes("aio_anyio.py"))]
)
def test_33_asyncio_and_anyio_keep_their_promises(
    client: Connection, file: str, name: str, stage: str
) -> None:
    reply = client.get(f"/probes/{file.removesuffix('.py')}/{stage}/{name}")
    assert (reply.status, reply.content.decode()) == (200, "ok")


CALLABLES = ("app", "instance", "generator", "plain", "awaitable", "future")


@pytest.mark.parametrize("name", CALLABLES)
def test_an_application_is_any_callable_that_gives_an_awaitable(
    serving: Serving, name: str
) -> None:
    with serving(f"{APP}:{name}").connect() as client:
        client.send(head("GET", "/context/now") + head("GET", "/context/later"))
        assert [client.read().content for _ in range(2)] == [b"unset"] * 2
        assert json.loads(client.get("/seen").content) is not None


def test_33_what_a_plain_function_leaves_on_a_task_no_other_request_sees(serving: Serving) -> None:
    with serving(f"{APP}:raising").connect() as client:
        client.send(head("GET", "/named") + head("GET", "/raise") + head("GET", "/named"))
        replies = [client.read() for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 500, 200]
    assert [replies[0].content, replies[2].content] == [b"False", b"False"]
