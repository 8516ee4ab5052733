"""Streamed responses and contents received in parts, with a record of what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from bolide import App, Request
from bolide.errors import ClientDisconnected

app = App()
PART = b"x" * 10_000
record: dict[str, Any] = {"parts": 0, "ended": [], "received": 0, "bodies": []}


def note(how: str) -> None:
    """Keep how something ended."""
    record["ended"].append(how)


@app.get("/record")
def show(request: Request) -> dict[str, Any]:
    """Report what there is."""
    return record


@app.get("/forget")
def forget(request: Request) -> str:
    """Begin anew."""
    record.update(parts=0, ended=[], received=0, bodies=[])
    app.state.go_on.clear()
    return "ok"


async def counted(parts: int) -> AsyncIterator[bytes]:
    """Yield parts, and count them."""
    try:
        for _ in range(parts):
            record["parts"] += 1
            yield PART
        note("complete")
    except GeneratorExit:
        note("closed")
        raise
    except asyncio.CancelledError:
        note("cancelled")
        raise
    finally:
        await asyncio.sleep(0)
        note("finally")


def counted_sync(parts: int) -> Iterator[bytes]:
    """Yield parts, and count them."""
    try:
        for _ in range(parts):
            record["parts"] += 1
            yield PART
        note("complete")
    except GeneratorExit:
        note("closed")
        raise
    finally:
        note("finally" if asyncio.current_task() is None else "in a task")


@app.get("/async/{parts:int}")
async def stream_async(request: Request, parts: int) -> AsyncIterator[bytes]:
    """Stream from a first step."""
    return counted(parts)


@app.get("/async-later/{parts:int}")
async def stream_async_later(request: Request, parts: int) -> AsyncIterator[bytes]:
    """Stream after a suspension."""
    await asyncio.sleep(0)
    return counted(parts)


@app.get("/async-of-def/{parts:int}")
def stream_async_of_def(request: Request, parts: int) -> AsyncIterator[bytes]:
    """Stream asynchronously from a `def` handler."""
    return counted(parts)


@app.get("/sync/{parts:int}")
def stream_sync(request: Request, parts: int) -> Iterator[bytes]:
    """Stream from a generator."""
    return counted_sync(parts)


@app.get("/sync-later/{parts:int}")
async def stream_sync_later(request: Request, parts: int) -> Iterator[bytes]:
    """Stream from a generator after a suspension."""
    await asyncio.sleep(0)
    return counted_sync(parts)


@app.get("/waits")
async def waits(request: Request) -> AsyncIterator[bytes]:
    """Stream a part, and then wait for what never comes."""

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield PART
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            note("cancelled")
            raise
        finally:
            note("finally")

    return parts()


@app.get("/fails/{how}")
async def fails(request: Request, how: str) -> Any:
    """Stream a part, and then fail."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"part"
        if how == "async-later":
            await asyncio.sleep(0)
        raise KeyError(how)

    def parts_sync() -> Iterator[bytes]:
        yield b"part"
        raise KeyError(how)

    return parts_sync() if how == "sync" else parts()


@app.post("/body")
async def body(request: Request) -> str:
    """Read the whole content."""
    try:
        content = await request.body()
    except ClientDisconnected:
        note("disconnected")
        raise
    record["bodies"].append(len(content))
    assert await request.body() is content
    return str(len(content))


@app.post("/body-in-group")
async def body_in_group(request: Request) -> str:
    """Read the whole content in a task group."""
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(body(request))
    return reading.result()


@app.post("/body-with-timeouts")
async def body_with_timeouts(request: Request) -> str:
    """Read the whole content in many short attempts."""
    while True:
        try:
            async with asyncio.timeout(0.0005):
                return str(len(await request.body()))
        except TimeoutError:
            continue


@app.post("/stream")
async def stream(request: Request) -> str:
    """Read part by part, each only when the event is set."""
    try:
        async for part in request.stream():
            record["received"] += len(part)
            if record["received"] > 50_000:
                await app.state.go_on.wait()
    except ClientDisconnected:
        note("disconnected")
        raise
    return str(record["received"])


@app.post("/echo")
async def echo(request: Request) -> AsyncIterator[bytes]:
    """Respond with each part as it comes."""
    return request.stream()


@app.post("/ignores")
async def ignores(request: Request) -> str:
    """Respond without a look at the content."""
    await asyncio.sleep(0)
    return "ignored"


@app.on_startup
async def startup() -> None:
    """Make the event."""
    app.state.go_on = asyncio.Event()


@app.get("/go-on")
def go_on(request: Request) -> str:
    """Set the event."""
    app.state.go_on.set()
    return "ok"
