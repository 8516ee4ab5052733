"""What a worker does besides serving."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bolide import _core
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server import forked, worker
from bolide.server.process import channel
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


@pytest.mark.parametrize("error", [MemoryError(), ConfigError("key: a is not the key of b")])
def test_a_worker_that_cannot_use_new_certificates_asks_for_them_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in the loop's reader would leave it with the old ones forever."""

    class Certificates:
        current = "new"
        attempts = 0

        def take(self, received: bytes) -> None:
            assert received == b"content"
            self.attempts += 1
            if self.attempts == 1:
                raise error

    class Server:
        def __init__(self, is_renewed: asyncio.Event) -> None:
            self.is_renewed = is_renewed

        def renew_tls(self, current: str) -> None:
            assert current == "new"
            self.is_renewed.set()

    async def run() -> int:
        is_renewed = asyncio.Event()
        certificates: Any = Certificates()
        service: Any = SimpleNamespace(server=Server(is_renewed))
        ours, theirs = channel.channel(0)
        worker._take_what_is_new(theirs, certificates, service)
        async with asyncio.timeout(20):
            while not is_renewed.is_set():
                ours.send(1, lambda: _core.memory_file(b"content"))
                await asyncio.sleep(0)
        asyncio.get_running_loop().remove_reader(theirs)
        os.close(ours.fd)
        os.close(theirs)
        attempts: int = certificates.attempts
        return attempts

    assert asyncio.run(run()) == 2
    assert "this worker keeps the old certificates: it cannot use the new ones: " in caplog.text


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
