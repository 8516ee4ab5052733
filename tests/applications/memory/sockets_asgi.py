"""An ASGI application whose WebSockets send messages of any length."""

from __future__ import annotations

import asyncio
import os
from typing import Any

CONTENTS = {"bytes": bytes, "bytearray": bytearray, "random": os.urandom}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond, or do what each message says: how a message is sent, of which kind and length."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is None:
            await send({"type": "websocket.send", "text": str(len(message["bytes"]))})
            continue
        try:
            await act(send, *message["text"].split())
        except MemoryError:
            await send({"type": "websocket.send", "text": "MemoryError"})


async def act(send: Any, how: str, kind: str, size: str) -> None:
    """Send a message."""
    content = CONTENTS[kind](int(size))
    if how == "later":
        await asyncio.sleep(0)
    await send({"type": "websocket.send", "bytes": content})
