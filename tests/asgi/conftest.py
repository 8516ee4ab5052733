"""What the tests of ASGI share: an application on both event loops, and what it has seen.

Each test's name begins with the number of the point that it proves:

1-11 the scope, 12-19 `receive`, 20-33 `send` and the end of the application, 43-45 the lifespan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from asgi.held import Seen
from support.client import Connection
from support.loops import Serving
from support.server import Server


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, serving: Serving) -> Server:
    """Serve the module's application, which its APP names, with its OPTIONS on an event loop."""
    return serving(request.module.APP, *getattr(request.module, "OPTIONS", ()))


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """Connect to it."""
    with server.connect() as client:
        yield client


@pytest.fixture
def seen(server: Server) -> Seen:
    """Return a function that asks what the application has noted under a name."""

    def seen(name: str) -> Any:
        with server.connect() as client:
            return client.get("/seen").json().get(name, 0)

    return seen
