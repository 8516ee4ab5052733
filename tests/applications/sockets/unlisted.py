"""Handlers that accept, and whose tasks asyncio then refuses to list, as it may without memory."""

import asyncio.tasks
from typing import Any

from bolide import App, Request, WebSocket

app = App()
list_task = asyncio.tasks._register_task
refuses = [False]


def list_or_refuse(task: Any) -> None:
    if refuses[0]:
        refuses[0] = False
        raise MemoryError
    list_task(task)


asyncio.tasks._register_task = list_or_refuse


@app.get("/page")
async def page(request: Request) -> str:
    await asyncio.sleep(0)
    return "a page"


@app.websocket("/native")
async def accepts(ws: WebSocket) -> None:
    refuses[0] = True
    await ws.accept()
    await ws.receive()


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    refuses[0] = True
    await send({"type": "websocket.accept"})
    await receive()


app.mount("/asgi", asgi)
