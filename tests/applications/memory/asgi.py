"""The ASGI application: content and responses of any length."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Do what the path says."""
    assert scope["type"] == "http"
    _, kind, *rest = scope["path"].split("/")
    parts = [bytes(int(rest[0]))] if rest else [b"hello"]
    if kind == "wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    if kind.startswith("echo"):
        read, more = [], True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            read.append(message["body"])
            more = message["more_body"]
        parts = [b"".join(read)]
    if kind.endswith("-later"):
        await asyncio.sleep(0)
    if kind.startswith("part"):
        parts.insert(0, b"first")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if kind == "caught":
        with suppress(MemoryError):
            await send({"type": "http.response.body", "body": parts[0], "more_body": True})
        parts = [b"rest"]
    for index, part in enumerate(parts):
        more = index + 1 < len(parts)
        await send({"type": "http.response.body", "body": part, "more_body": more})
