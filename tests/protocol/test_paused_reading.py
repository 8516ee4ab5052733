"""A head of which the server does not read the rest: its time does not run meanwhile."""

from __future__ import annotations

import time

import pytest

from protocol.pressure import APPLICATION
from support.peer import is_silent
from support.request import head
from support.server import Start

pytestmark = pytest.mark.slow

HEADER_TIMEOUT = ("--header-timeout-ms", "2000")
NEXT = head("GET", "/hello")
SIZE_MIN = 9_000_000
"""More than the kernel's buffers take."""
BIG, PARTS, PARTS_LATER = f"/big/{SIZE_MIN}", "/parts/140", "/parts-later/140"

cases = pytest.mark.parametrize(
    ("interface", "path"),
    [
        ("native", BIG),
        ("native", PARTS),
        ("native", PARTS_LATER),
        ("asgi", PARTS),
        ("wsgi", PARTS),
    ],
)


@cases
def test_the_rest_of_a_head_may_come_after_a_slow_response(
    start: Start, interface: str, path: str
) -> None:
    server = start(*APPLICATION[interface], *HEADER_TIMEOUT)
    with server.connect() as client:
        client.send(head("GET", path) + NEXT[:20])
        time.sleep(2.8)  # nothing is read for longer than a head may take
        assert len(client.read().content) >= SIZE_MIN
        client.send(NEXT[20:])
        assert client.read().content == b"hello"


@cases
def test_a_head_that_is_not_completed_after_a_slow_response_is_refused(
    start: Start, interface: str, path: str
) -> None:
    server = start(*APPLICATION[interface], *HEADER_TIMEOUT)
    with server.connect() as client:
        client.send(head("GET", path) + NEXT[:20])
        time.sleep(2.3)
        assert len(client.read().content) >= SIZE_MIN
        assert is_silent(client, 0.2)
        reply = client.read()
        assert (reply.status, reply.is_last) == (408, True)
