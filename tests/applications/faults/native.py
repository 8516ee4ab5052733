"""The native application of the fault matrix: the query names the request."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator

from noted import fail, hang, note, noted, reply

from bolide import App, Request, WebSocket

app = App()


@app.get("/quick")
def quick(request: Request) -> bytes:
    """Respond at once."""
    with noted(request.query["id"]):
        return reply(request.query["id"], int(request.query.get("size", "0")))


@app.get("/work")
async def work(request: Request) -> bytes:
    """Respond after a while."""
    with noted(request.query["id"]):
        await asyncio.sleep(int(request.query["ms"]) / 1000)
        return reply(request.query["id"])


@app.post("/upload")
async def upload(request: Request) -> str:
    """Count and hash the content as it arrives."""
    digest, size = hashlib.sha256(), 0
    with noted(request.query["id"]):
        async for part in request.stream():
            digest.update(part)
            size += len(part)
        return f"{request.query['id']} {size} {digest.hexdigest()}"


@app.post("/unread")
async def unread(request: Request) -> bytes:
    """Respond without reading the content."""
    with noted(request.query["id"]):
        return reply(request.query["id"])


@app.get("/stream")
async def stream(request: Request) -> AsyncIterator[bytes]:
    """Return an iterator of many parts."""
    identity, size = request.query["id"], int(request.query["size"])
    pause_s = int(request.query.get("ms", "0")) / 1000
    part = reply(identity, min(size, 65536))
    note("begun", identity)

    async def parts() -> AsyncIterator[bytes]:
        left = size
        while left > 0:
            yield part[:left]
            left -= len(part)
            if pause_s:
                await asyncio.sleep(pause_s)
        note("ended", identity)

    return parts()


@app.get("/tasks")
async def tasks(request: Request) -> str:
    """Count the tasks of the loop, without this one."""
    return str(len(asyncio.all_tasks()) - 1)


@app.get("/clock")
def clock(request: Request) -> str:
    """Return the time of the wall clock, as Python sees it."""
    return str(time.time())


@app.get("/hang/{kind}")
def hangs(request: Request, kind: str) -> bytes:
    """Block the loop."""
    with noted(request.query["id"]):
        hang(kind)
        return reply(request.query["id"])


@app.get("/raise/{kind}/{when}")
async def raises(request: Request, kind: str, when: str) -> AsyncIterator[bytes] | bytes:
    """Raise before the response or within it."""
    note("begun", request.query["id"])
    if when == "before":
        fail(kind)
    return failing(kind, when)


async def failing(kind: str, when: str) -> AsyncIterator[bytes]:
    try:
        yield b"x" * 100
        await asyncio.sleep(0)
        if when == "middle":
            fail(kind)
        yield b"x" * 100
    finally:
        if when == "close":
            fail(kind)


@app.websocket("/echo")
async def echo(ws: WebSocket) -> None:
    """Send back each message."""
    async for message in ws:
        await ws.send(message)
