"""Work after responses when the server stops (point 43), and readers that were cancelled."""

from __future__ import annotations

import ast
import signal
from pathlib import Path

import pytest

from asgi.test_lifespan import first
from support.client import Connection
from support.server import Start

pytestmark = pytest.mark.slow

APP = "asgi/background.py"


@pytest.mark.parametrize("how", ["now", "later", "parts"])
def test_43_the_shutdown_waits_for_work_after_responses(
    start: Start, loop: str, tmp_path: Path, how: str
) -> None:
    server = start(APP, "--loop", loop)
    with server.connect() as client:
        assert client.get(f"/work/{how}?{tmp_path}/go").content == b"done"
        server.wait_line("work begins")
        server.signal(signal.SIGTERM)
        # The connection ends, and the work goes on.
        assert client.is_closed()
    (tmp_path / "go").touch()
    assert server.wait() == 0
    ended, shutdown = first(server.lines, "work ends", "lifespan.shutdown")
    assert ended < shutdown
    assert "work is cancelled" not in server.errors


def test_43_work_that_does_not_end_is_cancelled_before_the_shutdown(
    start: Start, loop: str, tmp_path: Path
) -> None:
    server = start(APP, "--loop", loop, "--graceful-timeout-ms", "700")
    with server.connect() as client:
        assert client.get(f"/work/now?{tmp_path}/never").content == b"done"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    said, cancelled, shutdown = first(
        server.lines, "cancelling 1 handler(s)", "work is cancelled", "lifespan.shutdown"
    )
    assert said < cancelled < shutdown


def test_43_a_second_signal_does_not_wait_for_it(start: Start, loop: str, tmp_path: Path) -> None:
    server = start(APP, "--loop", loop)
    with server.connect() as client:
        assert client.get(f"/work/now?{tmp_path}/never").content == b"done"
    server.signal_twice()
    assert server.wait() == 1


def test_asking_for_the_client_again_and_again_leaves_nothing(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop)
    with server.connect() as client:
        futures = ast.literal_eval(client.get("/polls").content.decode())
    assert futures[0] == futures[1] == futures[2]


def test_the_same_while_content_is_still_to_come(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop)
    with Connection(server.address) as client:
        client.send(b"POST /polls HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\nx")
        futures = ast.literal_eval(client.read().content.decode())
    assert futures[0] == futures[1] == futures[2]
