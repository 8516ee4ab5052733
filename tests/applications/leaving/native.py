"""Handlers and streams that learn that their client has left, with a record of how each ended."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

from bolide import App, Request

app = App()
ended: list[str] = []
kept: list[Request] = []
WHOLE = b"x" * 3_000_000


@app.on_startup
async def startup() -> None:
    """Make what handlers wait for."""
    app.state.never = asyncio.Event()
    app.state.go_on = asyncio.Event()


@app.get("/ended")
def show(request: Request) -> list[str]:
    """Report what has ended, and how."""
    return ended


@app.get("/forget")
def forget(request: Request) -> str:
    """Begin anew."""
    ended.clear()
    kept.clear()
    app.state.go_on.clear()
    return "ok"


@app.get("/go-on")
def go_on(request: Request) -> str:
    """Let handlers go on."""
    app.state.go_on.set()
    return "ok"


async def waiting(count: int, how: str = "event") -> AsyncIterator[bytes]:
    """Yield parts, then wait for what never comes."""
    try:
        for _ in range(count):
            yield b"part"
        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(app.state.never.wait())
        elif how == "timeout":
            async with asyncio.timeout(3600):
                await app.state.never.wait()
        else:
            await app.state.never.wait()
    except asyncio.CancelledError:
        ended.append("cancelled")
        raise
    finally:
        await asyncio.sleep(0)
        ended.append("finally")


class Waiting:
    """An async iterator with a method `aclose()` that is no generator."""

    def __aiter__(self) -> Waiting:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return nothing, ever."""
        await app.state.never.wait()
        return b""

    async def aclose(self) -> None:
        """Say that it was called."""
        ended.append("finally")


@app.get("/stream/{count:int}/{how}")
async def stream(request: Request, count: int, how: str) -> AsyncIterator[bytes]:
    """Stream from a first step."""
    return Waiting() if how == "object" else waiting(count, how)


@app.get("/stream-of-def")
def stream_of_def(request: Request) -> AsyncIterator[bytes]:
    """Stream from a `def` handler."""
    return waiting(1)


@app.get("/stream-later/{how}")
async def stream_later(request: Request, how: str) -> AsyncIterator[bytes]:
    """Stream when a test allows it, perhaps to a client that has left by then."""
    ended.append("begun")
    await app.state.go_on.wait()
    return Waiting() if how == "object" else waiting(1)


@app.get("/cleans-up")
async def cleans_up(request: Request) -> AsyncIterator[bytes]:
    """Stream from a generator that takes its time to end."""

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"part"
            await app.state.never.wait()
        finally:
            ended.append("cleaning")
            await app.state.go_on.wait()
            ended.append("finally")

    return parts()


@app.get("/helped")
async def helped(request: Request) -> AsyncIterator[bytes]:
    """Stream what a task gives that waits for the departure too."""

    async def watch() -> None:
        await request.disconnected()
        ended.append("disconnected")

    async def parts() -> AsyncIterator[bytes]:
        task = asyncio.create_task(watch())
        try:
            yield b"part"
            await app.state.never.wait()
        finally:
            await task
            ended.append("finally")

    return parts()


@app.post("/echo")
async def echo(request: Request) -> AsyncIterator[bytes]:
    """Give each part back, after some time."""

    async def parts() -> AsyncIterator[bytes]:
        async for part in request.stream():
            await asyncio.sleep(0.001)
            yield part

    await app.state.go_on.wait()
    return parts()


@app.get("/whole")
async def whole(request: Request) -> bytes:
    """Respond when a test allows it."""
    ended.append("begun")
    await app.state.go_on.wait()
    ended.append(f"left: {request.is_disconnected}")
    return WHOLE


@app.get("/asks")
async def asks(request: Request) -> None:
    """Ask again and again whether the client is there."""
    ended.append("begun")
    while not request.is_disconnected:
        await asyncio.sleep(0.005)
    ended.append("finally")


@app.route("/awaits", ["GET", "POST"])
async def awaits(request: Request) -> None:
    """Wait for the departure, at first with short timeouts."""
    assert not request.is_disconnected
    ended.append("begun")
    before = count_futures()
    for _ in range(50):
        try:
            async with asyncio.timeout(0):
                await request.disconnected()
        except TimeoutError:
            continue
    assert count_futures() < before + 25
    await request.disconnected()
    assert request.is_disconnected
    ended.append("finally")


def count_futures() -> int:
    """Count the futures that there are."""
    gc.collect()
    return sum(type(each) is asyncio.Future for each in gc.get_objects())


@app.get("/leaves-a-task")
async def leaves_a_task(request: Request) -> str:
    """Respond while a task still waits for the departure."""

    async def watch() -> None:
        await request.disconnected()
        ended.append("finally")

    app.state.task = asyncio.create_task(watch())
    if "wait" in request.query:
        await asyncio.sleep(0.001)
    return "ok"


@app.get("/asked-in-def")
def asked_in_def(request: Request) -> dict[str, Any]:
    """Ask in a `def` handler."""
    kept.append(request)
    try:
        request.disconnected()
    except RuntimeError as error:
        return {"before": request.is_disconnected, "error": str(error)}
    raise AssertionError


@app.get("/asked-later")
def asked_later(request: Request) -> list[bool]:
    """Ask a request whose response is complete."""
    return [kept[0].is_disconnected]
