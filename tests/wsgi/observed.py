"""What the plain WSGI application has seen, asked over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from support.server import Server

PATIENCE_S = 10


def seen(server: Server) -> dict[str, Any]:
    """Ask what the application has seen."""
    with server.connect() as client:
        found: dict[str, Any] = client.get("/seen").json()
        return found


def wait_seen(server: Server, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the application has seen it."""
    end = time.monotonic() + PATIENCE_S
    while not is_it(found := seen(server)):
        assert time.monotonic() < end, found
    return found
