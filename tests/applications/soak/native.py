"""The native application of the soak."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from counted import COUNTS, count_tasks, counted, parts, reply

from bolide import App, Request, WebSocket

app = App()


@app.on_startup
async def watch(app: App) -> None:
    """Start to count tasks."""
    app.state.watcher = asyncio.create_task(count_tasks())


@app.get("/small")
def small(request: Request) -> bytes:
    """Respond at once."""
    with counted(request.query):
        return reply(request.query)


@app.get("/later")
async def later(request: Request) -> bytes:
    """Respond after a while."""
    with counted(request.query):
        await asyncio.sleep(0.002)
        return reply(request.query)


@app.post("/upload")
async def upload(request: Request) -> bytes:
    """Count the content as it arrives."""
    size = 0
    with counted(request.query):
        async for part in request.stream():
            size += len(part)
        return reply(request.query, size)


@app.post("/whole")
def whole(request: Request) -> bytes:
    """Get the content as a whole."""
    with counted(request.query):
        return reply(request.query, len(request.body()))


@app.get("/stream")
async def stream(request: Request) -> AsyncIterator[bytes]:
    """Return many parts."""
    query = request.query

    async def made() -> AsyncIterator[bytes]:
        with counted(query):
            for part in parts(query):
                yield part
                await asyncio.sleep(0)

    return made()


@app.get("/raise")
async def raises(request: Request) -> bytes:
    """Fail."""
    with counted(request.query):
        raise ValueError("of the soak")


@app.websocket("/echo")
async def echo(ws: WebSocket) -> None:
    """Send back each message."""
    with counted(ws.query):
        async for message in ws:
            COUNTS.add(f"{ws.query['kind']} octets", len(message))
            COUNTS.add(f"{ws.query['kind']} made", len(message))
            await ws.send(message)
