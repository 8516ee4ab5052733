"""A task is lent to a handler only if nothing of another request is on it, and nothing is left."""

from __future__ import annotations

import pytest

from applications import aio_kept
from support.client import Connection
from support.loops import Serving

pytestmark = pytest.mark.slow

OBJECTS_MORE_MAX = 100


@pytest.mark.parametrize("where", ["first", "later", "raises", "raises-later"])
@pytest.mark.parametrize("way", aio_kept.WAYS)
def test_no_request_sees_what_another_left(serving: Serving, way: str, where: str) -> None:
    with serving("aio_kept.py").connect() as client:
        for path in (f"/{where}/{way}", "/traces", f"/{where}/{way}", "/traces"):
            reply = client.get(path)
            assert (path, reply.status, reply.json()) == (path, 200, [])


@pytest.mark.parametrize("where", ["first", "later", "raises", "wrapped"])
@pytest.mark.parametrize("way", aio_kept.WAYS)
def test_nor_does_one_of_the_same_batch(serving: Serving, way: str, where: str) -> None:
    paths = [f"/{where}/{way}", "/traces", f"/{where}/{way}", "/traces"]
    with serving("aio_kept.py").connect() as client:
        client.send(b"".join(request(path) for path in paths))
        assert [client.read().json() for _ in paths] == [[]] * 4


@pytest.mark.parametrize("where", ["first", "later"])
def test_done_callback_runs_when_its_handler_ends(serving: Serving, where: str) -> None:
    with serving("aio_kept.py").connect() as client:
        before = client.get("/ended").json()
        assert client.get(f"/{where}/callback").json() == []
        # The response may be here one turn of the loop before the callback.
        after = next(now for _ in range(100) if (now := client.get("/ended").json()) != before)
        assert after == [*before, True]


@pytest.mark.parametrize(
    "path", ["/quick", "/gives-way", "/streams", "/fails", "/first/callback", "/raises/callback"]
)
def test_nothing_accumulates(serving: Serving, path: str) -> None:
    with serving("aio_kept.py").connect() as client:
        ask_often(client, path, 500)
        before = census(client)
        ask_often(client, path, 20_000 if path in ("/quick", "/gives-way") else 2000)
        after = census(client)
    assert after["tasks"] == before["tasks"]
    more = after["objects"] - before["objects"]
    assert more <= OBJECTS_MORE_MAX


def test_nothing_accumulates_of_contents(serving: Serving) -> None:
    with serving("aio_kept.py").connect() as client:
        upload_often(client, 50)
        before = census(client)
        upload_often(client, 500)
        after = census(client)
    assert after["tasks"] == before["tasks"]
    assert after["objects"] - before["objects"] <= OBJECTS_MORE_MAX


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


def ask_often(client: Connection, path: str, times: int) -> None:
    """Ask in batches."""
    for _ in range(times // 50):
        client.send(request(path) * 50)
        assert {client.read().status for _ in range(50)} == {200}


def upload_often(client: Connection, times: int) -> None:
    """Send contents of which the first half comes with the head."""
    for _ in range(times):
        client.send(b"POST /reads HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345")
        client.send(b"67890")
        assert client.read().content == b"10"


def census(client: Connection) -> dict[str, int]:
    """Ask what there is, a second time so that the first asking does not count."""
    client.get("/census")
    counts: dict[str, int] = client.get("/census").json()
    return counts
