"""Servers of one application for each interface, which says what it knows of its client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.client import Connection
from support.server import Server, Start

ON_INTERFACES = ("on_native", "on_asgi", "on_wsgi")

Serve = Callable[..., Server]


@pytest.fixture
def serve(start: Start) -> Serve:
    """Return a function that serves an application of tests/applications/forwarded."""

    def serve(name: str, *options: str) -> Server:
        return start(f"forwarded/{name}.py", *options)

    return serve


def asked(client: Connection, *fields: str, path: str = "/a") -> dict[str, Any]:
    """Return what the application knows of the client of a request with these field lines."""
    reply = client.get(path, *fields)
    assert reply.status == 200
    seen: dict[str, Any] = reply.json()
    return seen
