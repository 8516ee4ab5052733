"""Asks the application what it has noted, and lets go on what it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.server import Server
from support.waiting import wait_until

Seen = Callable[[str], Any]
"""The fixture `seen`: returns what the application has noted under a name."""


def wait_held(seen: Seen, before: int) -> None:
    """Wait until one more request is held."""
    wait_until(lambda: seen("held") == before + 1)


def release(server: Server) -> None:
    """Let those go on that are held."""
    with server.connect() as client:
        assert client.get("/release").content == b"released"
