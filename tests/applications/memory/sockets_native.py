"""A native application whose WebSockets send and publish messages of any length."""

from __future__ import annotations

import asyncio
import os

from bolide import App, Request, WebSocket

app = App()
CONTENTS = {"bytes": bytes, "bytearray": bytearray, "random": os.urandom}
published = []
"""These stay, so that there is no memory for copies of them."""


@app.get("/hello")
def hello(request: Request) -> str:
    """Respond at once."""
    return "hello"


@app.websocket("/do")
async def do(ws: WebSocket) -> None:
    """Do what each message says: how a message is sent, of which kind and length."""
    ws.subscribe("all")
    async for message in ws:
        if not isinstance(message, str):
            await ws.send(str(len(message)))
            continue
        try:
            await act(ws, *message.split())
        except MemoryError:
            await ws.send("MemoryError")


async def act(ws: WebSocket, how: str, kind: str, size: str) -> None:
    """Send or publish a message."""
    published.clear()
    content = CONTENTS[kind](int(size))
    if how == "later":
        await asyncio.sleep(0)
    if how == "publish":
        app.publish("all", content)
        published.append(content)
    else:
        await ws.send(content)
