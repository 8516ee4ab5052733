"""A CancelledError of an application is a failure like any other: nothing cancels a view."""

from __future__ import annotations

import pytest

from support.request import head
from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("kind", ["asyncio", "futures"])
def test_a_cancellation_that_an_application_raises_is_logged_once(
    start: Start, threads: str, kind: str
) -> None:
    server = start("wsgi/cancelled.py", "--threads", threads)
    for where in ("view", "iter", "next", "later"):
        path = f"/{kind}/{where}"
        with server.connect() as client:
            client.send(head("GET", path))
            if where == "later":
                assert client.read_head().status == 200
                assert client.read_to_end() == b"5\r\nblock\r\n"
            else:
                assert client.read().status == 500
        server.wait_line(f"GET {path}: the application raised")
        server.wait_line(r"CancelledError: on purpose")
    with server.connect() as client:
        assert client.get("/").content == b"fine"
    assert "".join(server.lines).count("Traceback") == 4
    assert "".join(server.lines).count("the application raised") == 4
