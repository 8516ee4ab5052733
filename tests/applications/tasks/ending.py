"""Handlers that end the event loop, and a stream that ends as sse-starlette's do."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from bolide import App, Request, Response

app = App()


@app.get("/")
async def root(request: Request) -> str:
    """Respond at once."""
    return "root"


@app.get("/cancel")
async def cancel(request: Request) -> str:
    """Cancel every task, those of the server too."""
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)
    return "never"


@app.get("/stop")
async def stop(request: Request) -> str:
    """Stop the event loop."""
    asyncio.get_running_loop().stop()
    await asyncio.sleep(60)
    return "never"


@app.get("/exit")
async def leave(request: Request) -> str:
    """Let a callback exit, while this waits."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(60)
    return "never"


@app.get("/interrupt")
async def interrupt(request: Request) -> str:
    """Let a callback raise what only a signal should."""

    def fail() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(60)
    return "never"


@app.post("/content")
async def content(request: Request) -> bytes:
    """Send the content back, which may arrive while the worker drains."""
    print("reading", file=sys.stderr, flush=True)
    return b"".join([bytes(part) async for part in request.stream()])


@app.get("/thread")
async def leave_thread(request: Request) -> str:
    """Exit as `/exit`, while a thread runs that the interpreter waits for."""
    threading.Thread(target=threading.Event().wait).start()
    return await leave(request)


@app.get("/events")
async def events(request: Request) -> Response:
    """Send until the server is to exit, which the handler of TERM knows."""

    async def stream() -> AsyncIterator[bytes]:
        handler: Any = signal.getsignal(signal.SIGTERM)
        yield b"begun"
        while not handler.__self__.should_exit:
            await asyncio.sleep(0.01)
        yield b", ended"

    return Response(stream())
