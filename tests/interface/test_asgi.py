"""How the lifespan of an ASGI application ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bolide.interface import asgi
from bolide.interface.asgi import AsgiApplication, LifespanError

After = Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]]


def lifespan(after: After, end: str = "complete") -> AsgiApplication:
    """Make an application whose lifespan goes on after its shutdown."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": f"lifespan.shutdown.{end}"})
        await after(receive)

    return AsgiApplication(app)


async def started_and_shut_down(app: AsgiApplication) -> None:
    async with asyncio.timeout(20):
        await app.startup()
        await app.shutdown()


@pytest.mark.parametrize("end", ["complete", "failed"])
def test_what_is_around_an_application_ends_too(end: str) -> None:
    steps = []

    async def close(_: object) -> None:
        steps.append("closes")
        await asyncio.sleep(0.001)
        steps.append("closed")

    app = lifespan(close, end)
    if end == "failed":
        with pytest.raises(LifespanError, match="no reason given"):
            asyncio.run(started_and_shut_down(app))
    else:
        asyncio.run(started_and_shut_down(app))
    assert steps == ["closes", "closed"]


def test_a_second_reply_to_the_startup_is_not_one_to_the_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asgi, "LAST_WORDS_S", 60)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        for _ in range(2):
            await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "the database is gone"})

    with pytest.raises(LifespanError, match="the database is gone"):
        asyncio.run(started_and_shut_down(AsgiApplication(app)))


def test_one_that_does_not_look_at_what_it_is_called_for_is_served() -> None:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    asyncio.run(started_and_shut_down(AsgiApplication(app)))


@pytest.mark.parametrize("reply", ["lifespan.started", "lifespan.shutdown.complete"])
def test_a_wrong_reply_to_the_startup_is_one(reply: str) -> None:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": reply})
        await receive()

    asyncio.run(started_and_shut_down(AsgiApplication(app)))


def test_one_that_replies_as_at_its_startup_shuts_down() -> None:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while True:
            await receive()
            await send({"type": "lifespan.startup.complete"})

    asyncio.run(started_and_shut_down(AsgiApplication(app)))


def test_one_that_receives_again_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "LAST_WORDS_S", 60)
    ended = []

    async def receive_again(receive: Callable[[], Awaitable[Any]]) -> None:
        try:
            await receive()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    asyncio.run(started_and_shut_down(lifespan(receive_again)))
    assert ended == ["cancelled"]


def test_one_that_does_not_end_is_waited_for_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asgi, "LAST_WORDS_S", 0.01)
    released = asyncio.Event()

    async def go_on(_: object) -> None:
        try:
            await released.wait()
        except asyncio.CancelledError:
            await released.wait()

    async def run() -> None:
        await started_and_shut_down(lifespan(go_on))
        released.set()

    asyncio.run(run())


def test_a_cancellation_of_the_shutdown_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "LAST_WORDS_S", 60)
    waits = asyncio.Event()

    async def wait(_: object) -> None:
        waits.set()
        await asyncio.get_running_loop().create_future()

    async def run() -> None:
        app = lifespan(wait)
        await app.startup()
        shutdown = asyncio.create_task(app.shutdown())
        await waits.wait()
        shutdown.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shutdown
        assert shutdown.cancelled()

    asyncio.run(run())
