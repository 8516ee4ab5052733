"""What asyncio promises about tasks, timeouts and cancellation, asked inside handlers.

Every check runs in its handler's first step, where the task is lent, and after a suspension.
"""

from __future__ import annotations

import pytest

from support.loops import Serving
from support.probe import probes

pytestmark = pytest.mark.slow

STAGES = ("first", "later")
ESCAPES = [name for name in probes("aio_cancel.py") if name.startswith("escapes")]
CHECKS = [
    (file, name)
    for file in ("aio_task.py", "aio_cancel.py")
    for name in probes(file)
    if name not in ESCAPES
]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("file", "name"), CHECKS)
def test_check(serving: Serving, file: str, name: str, stage: str) -> None:
    with serving(file).connect() as client:
        reply = client.get(f"/{stage}/{name}")
        assert (reply.status, reply.content.decode()) == (200, "ok")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ESCAPES)
def test_cancelled_handler_has_a_response(serving: Serving, name: str, stage: str) -> None:
    server = serving("aio_cancel.py")
    workers = server.workers()
    with server.connect() as client:
        assert client.get(f"/{stage}/{name}").status == 500
        server.wait_line(f"ERROR bolide.error: GET /{stage}/{name}: ")
        assert client.get("/first/timeout_does_not_expire").content == b"ok"
    assert server.workers() == workers


@pytest.mark.parametrize("name", ["interrupt", "exit"])
def test_a_function_that_raises_what_ends_programs_fails_alone(serving: Serving, name: str) -> None:
    server = serving("aio_cancel.py")
    with server.connect() as client:
        assert client.get(f"/plainly/{name}").status == 500
        server.wait_line(f"ERROR bolide.error: GET /plainly/{name}: ")
        assert client.get("/first/timeout_does_not_expire").content == b"ok"


@pytest.mark.parametrize("stage", STAGES)
def test_timeout_reaches_the_error_handler(serving: Serving, stage: str) -> None:
    with serving("aio_cancel.py").connect() as client:
        reply = client.get(f"/times-out/{stage}")
        assert (reply.status, reply.content) == (504, b"too late")
