"""A response without content is complete although its application continues (points 16 and 28)."""

from __future__ import annotations

import pytest

from asgi.held import Seen
from support.client import Connection
from support.request import head
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/without_content.py"
TIMES = 5


def test_28_a_stream_in_response_to_head_ends(
    server: Server, seen: Seen, client: Connection
) -> None:
    ended = seen("ended")
    client.send(head("HEAD", "/stream") * TIMES)
    for _ in range(TIMES):
        assert client.read("HEAD").status == 200
    wait_until(lambda: seen("ended") == ended + TIMES)
    assert seen("begun") == seen("ended")


def test_28_a_stream_that_never_waits_in_response_to_head_ends(
    server: Server, seen: Seen, client: Connection
) -> None:
    refused = seen("refused") or 0
    client.send(head("HEAD", "/endless"))
    assert client.read("HEAD").status == 200
    # Others are served meanwhile.
    wait_until(lambda: seen("refused") == refused + 1)
    # So is the same client.
    client.send(head("HEAD", "/endless"))
    assert client.read("HEAD").status == 200
    wait_until(lambda: seen("refused") == refused + 2)


def test_16_an_application_that_reads_after_204_is_notified(
    server: Server, seen: Seen, client: Connection
) -> None:
    ended = seen("ended")
    client.send(head("POST", "/early", "Content-Length: 100000") + b"x" * 1000)
    assert client.read().status == 204
    wait_until(lambda: seen("ended") == ended + 1)
