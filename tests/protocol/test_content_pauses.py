"""Content that came fast and then stops: what was early does not pay for a pause of hours."""

from __future__ import annotations

import signal
import time

import pytest

from protocol.pressure import APPLICATION
from support.client import Connection
from support.peer import is_silent
from support.request import head
from support.server import Start

pytestmark = pytest.mark.slow

SENT_BYTES = 4_000_000
GRACE_MS = 1000
GRACE = ("--body-grace-ms", str(GRACE_MS))

interfaces = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi", "wsgi, inline"])


def send_all_but_one_byte(client: Connection) -> None:
    """Send a request whose content lacks its last byte."""
    client.send(head("POST", "/read", f"Content-Length: {SENT_BYTES + 1}"))
    client.send(b"x" * SENT_BYTES)


@interfaces
def test_a_pause_ends_although_the_content_came_fast_before(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *GRACE, "--body-pause-ms-max", "1000")
    with server.connect() as client:
        begin = time.monotonic()
        send_all_but_one_byte(client)
        reply = client.read()
        assert (reply.status, reply.is_last) == (408, True)
        assert time.monotonic() - begin > 0.9


@interfaces
def test_a_shorter_pause_is_allowed(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *GRACE, "--body-pause-ms-max", "10000")
    with server.connect() as client:
        send_all_but_one_byte(client)
        assert is_silent(client, 1.5)
        client.send(b"x")
        assert client.read().content == b"%d" % (SENT_BYTES + 1)


@interfaces
def test_a_pause_ends_after_the_grace_while_the_server_drains(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *GRACE)
    with server.connect() as client:
        begin = time.monotonic()
        send_all_but_one_byte(client)
        server.signal(signal.SIGTERM)
        reply = client.read()
        assert (reply.status, reply.is_last) == (408, True)
        assert time.monotonic() - begin > GRACE_MS / 2000
    assert server.wait() == 0


@interfaces
def test_content_that_goes_on_while_the_server_drains_is_taken(
    start: Start, interface: str
) -> None:
    server = start(*APPLICATION[interface], *GRACE)
    with server.connect() as client:
        send_all_but_one_byte(client)
        server.signal(signal.SIGTERM)
        assert is_silent(client, 0.3)
        client.send(b"x")
        assert client.read().content == b"%d" % (SENT_BYTES + 1)
