"""A handler that waits costs nothing, and a timer of its own wakes an idle server."""

from __future__ import annotations

import pytest

from support.loops import LOOPS
from support.server import Start
from support.worker import ticks

pytestmark = pytest.mark.slow

WINDOWS = 3
WINDOW_S = 1.0
TICKS_MAX = 1


@pytest.mark.parametrize("loop", LOOPS)
def test_waiting_handlers_use_no_processor_time(start: Start, loop: str) -> None:
    server = start("basic.py", "--loop", loop)
    with server.connect() as idle, server.connect() as waiting:
        assert idle.get("/").status == 200
        waiting.send(b"GET /slow/3600000 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        (worker,) = server.workers()
        used = []
        for _ in range(WINDOWS):  # the kernel charges a busy machine's work to whom it interrupts
            before = ticks(worker)
            assert server.is_silent(WINDOW_S)
            used.append(ticks(worker) - before)
        assert min(used) <= TICKS_MAX
        assert idle.get("/").status == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_timer_wakes_an_idle_server(start: Start, loop: str) -> None:
    server = start("basic.py", "--loop", loop)
    with server.connect() as client:
        assert client.get("/slow/50").content == b"done"
