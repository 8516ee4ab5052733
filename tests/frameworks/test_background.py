"""Work after responses: Starlette's background tasks, Django's receivers of `request_finished`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from frameworks.conftest import FOLDER
from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["starlette", "django_asgi"])
def test_a_server_that_stops_waits_for_it(
    start: Start, loop: str, tmp_path: Path, name: str
) -> None:
    go = tmp_path / "go"
    server = start(f"background:{name}", "--loop", loop, cwd=FOLDER, env={"GO": str(go)})
    with server.connect() as client:
        assert client.get("/wait").content == b"done"
        server.wait_line("work begins")
        server.signal(signal.SIGTERM)
        assert client.is_closed()
    go.touch()
    assert server.wait() == 0
    said = [line.strip() for line in server.lines if line.startswith(("work", "shutdown"))]
    assert said == ["work begins", "work ends", *(["shutdown"] if name == "starlette" else [])]


def test_a_background_task_that_computes_does_not_delay_its_response(
    start: Start, loop: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    server = start("background:starlette", "--loop", loop, cwd=FOLDER, env={"GO": str(go)})
    with server.connect() as client:
        assert client.get("/block").content == b"done"
        go.touch()
        server.wait_line("work ends")
