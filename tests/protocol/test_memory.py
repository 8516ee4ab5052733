"""What responses take of the worker's memory while their client does not read them."""

from __future__ import annotations

import pytest

from protocol.pressure import APPLICATION, release, wait_held
from support.client import Connection
from support.peer import connect
from support.request import head
from support.server import Start
from support.waiting import wait_until
from support.worker import resident_bytes

pytestmark = pytest.mark.slow

SIZE = 9_000_000
COUNT = 15
"""As many requests as may be in work beside the first one."""
GROWTH_BYTES_MAX = 40_000_000
"""For all of them; each may be there twice for a moment: as the application's and as ours."""
TARGETS = {
    "native": APPLICATION["native"],
    "asgi": APPLICATION["asgi"],
    "wsgi": (*APPLICATION["wsgi"], "--threads", "2"),
}

LONG_BYTES = 60_000_000
READ_BYTES = LONG_BYTES * 4 // 5
RECEIVE_BUFFER_BYTES = 262_144
"""So that the kernel does not hold what is left."""
SLACK_BYTES = 24_000_000
"""What is not sent may take twice its size."""


def skip(client: Connection, count: int) -> None:
    """Read so many bytes of content."""
    while count:
        part = client.take(min(count, 1 << 20))
        assert part and part.strip(b"b") == b""
        count -= len(part)


@pytest.mark.parametrize("interface", TARGETS)
def test_responses_that_wait_for_a_slow_one_are_bounded(start: Start, interface: str) -> None:
    server = start(*TARGETS[interface])
    with server.connect() as client, server.connect() as other:
        skip_response(other, SIZE)
        before = resident_bytes(server)
        client.send(head("GET", "/held/5") + head("GET", f"/big/{SIZE}") * COUNT)
        wait_held(other)
        for _ in range(2 * COUNT):
            other.get("/hello")
        growth_bytes = resident_bytes(server) - before
        release(other)
        assert client.read().content == b"hhhhh"
        for _ in range(COUNT):
            assert client.read_head().get("content-length") == str(SIZE)
            skip(client, SIZE)
        assert growth_bytes < GROWTH_BYTES_MAX


@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi", "wsgi, inline"])
def test_what_was_sent_is_released_while_the_rest_waits(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        other.get("/hello")
        before = resident_bytes(server)
        client.send(head("GET", f"/big/{LONG_BYTES}"))
        assert client.read_head().get("content-length") == str(LONG_BYTES)
        skip(client, READ_BYTES)
        left_bytes = LONG_BYTES - READ_BYTES

        def is_released() -> bool:
            other.get("/hello")
            return resident_bytes(server) - before < left_bytes + SLACK_BYTES

        wait_until(is_released)
        skip(client, left_bytes)
        assert client.get("/hello").content == b"hello"


def skip_response(client: Connection, size: int) -> None:
    """Have a long response sent and read it: what it takes only once is taken."""
    client.send(head("GET", f"/big/{size}"))
    client.read_head()
    skip(client, size)
