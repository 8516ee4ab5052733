"""What a worker does besides serving."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from bolide.config.settings import resolve
from bolide.server import forked, worker
from bolide.server.process.ending import Ending
from bolide.server.redirect import Redirection


def test_keys_of_old_tickets_are_forgotten_without_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FORGET_S", 0)

    async def run() -> None:
        is_over = asyncio.Event()

        class Certificates:
            times = 0

            def forget_keys(self) -> None:
                self.times += 1
                if self.times == 3:
                    is_over.set()

        certificates: Any = Certificates()
        worker._forget_keys(certificates)
        async with asyncio.timeout(10):
            await is_over.wait()

    asyncio.run(run())


@pytest.fixture
def lifeline_fd(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make a lifeline for this process, which is no worker any more after the test."""
    monkeypatch.setattr(forked, "restore_term", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    ends = os.pipe()
    yield ends[0]
    signal.signal(signal.SIGTERM, before)
    for fd in ends:
        os.close(fd)


class Starting:
    """A service that gets TERM when its startup ends, before the loop turns again."""

    has_listened = False

    def __init__(self, *, gets_term: bool) -> None:
        self.gets_term = gets_term

    async def startup(self, *, own_selector: bool) -> None:
        if self.gets_term:
            signal.raise_signal(signal.SIGTERM)

    async def listen(self, _: object) -> None:
        self.has_listened = True


@pytest.mark.parametrize("which", ["none", "application", "redirection"])
def test_a_worker_that_got_term_during_a_startup_does_not_listen(
    lifeline_fd: int, which: str
) -> None:
    async def run() -> tuple[bool, bool]:
        end = Ending(lifeline_fd)
        settings = resolve({}, environ={})
        service: Any = Starting(gets_term=which == "application")
        redirecting: Any = Starting(gets_term=which == "redirection")
        redirection = Redirection([], [], settings)
        redirection._service = redirecting
        job = worker.Job("app", settings, "asyncio", [], None, lifeline_fd)
        assert await worker._is_started(job, service, redirection, end)
        return service.has_listened, redirecting.has_listened

    is_listening = which == "none"
    assert asyncio.run(run()) == (is_listening, is_listening)
