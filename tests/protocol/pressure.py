"""The application of the tests of adverse peers: in every interface, what it notes and holds."""

from __future__ import annotations

from typing import Any

from support.client import Connection
from support.waiting import wait_until

INLINE = ("--threads", "1")
APPLICATION = {
    "native": ("pressure/native.py",),
    "asgi": ("pressure/asgi.py",),
    "wsgi": ("pressure/wsgi.py",),
    "wsgi, inline": ("pressure/wsgi.py", *INLINE),
}
"""What to serve, and its options, by the interface."""


def seen(client: Connection, name: str) -> Any:
    """Ask the application what it has noted."""
    return client.get("/seen").json()[name]


def wait_held(client: Connection, count: int = 1) -> None:
    """Wait until so many requests wait for a release."""
    wait_until(lambda: seen(client, "held") == count)


def release(client: Connection) -> None:
    """Let those requests go on."""
    assert client.get("/release").content == b"released"
