"""FastAPI: dependencies around a request, its refusal of what does not fit, background tasks."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
PATIENCE_S = 10
JSON = "Content-Type: application/json"


def test_dependency_closes_after_the_background_task(serve: Start) -> None:
    with serve("on_fastapi").connect() as client:
        reply = client.post("/orders", b'{"name": "anvil", "count": 2}', JSON)
        assert (reply.status, reply.json()) == (201, {"name": "anvil", "count": 2})
        end = time.monotonic() + PATIENCE_S
        while len(log := client.get("/log").json()) < 4:
            assert time.monotonic() < end, log
    assert log == ["opened", "took 2 anvil", "in the background", "closed"]


def test_content_that_does_not_fit_is_422(serve: Start) -> None:
    with serve("on_fastapi").connect() as client:
        reply = client.post("/orders", b'{"count": "many"}', JSON)
        assert reply.status == 422
        (missing, malformed) = reply.json()["detail"]
        assert (missing["type"], missing["loc"]) == ("missing", ["body", "name"])
        assert (malformed["type"], malformed["loc"]) == ("int_parsing", ["body", "count"])
        assert client.get("/items/x?q=1").status == 422
        assert client.post("/orders", b"{", JSON).status == 422


def test_its_own_documents_are_served(serve: Start) -> None:
    with serve("on_fastapi").connect() as client:
        paths = json.loads(client.get("/openapi.json").content)["paths"]
        assert {"/hello", "/orders", "/upload"} <= paths.keys()
        assert b"swagger-ui" in client.get("/docs").content


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_startup_that_fails_is_one_traceback_and_one_line(start: Start, workers: str) -> None:
    target = "frameworks/applications/failing.py"
    server = start(target, "--workers", workers, ready=False, cwd=TESTS)
    assert server.wait() == 3
    assert server.errors.endswith(
        "bolide: error: the application's startup failed: RuntimeError: no database\n"
    )
    assert server.errors.count("bolide: error: ") == 1
    # One for each of two exceptions, as Starlette formats the cause of another.
    assert server.errors.count("Traceback") == 2 * server.errors.count("direct cause")
    assert 1 <= server.errors.count("direct cause") <= int(workers)
    assert 'raise RuntimeError("no database\\nat all")' in server.errors
