"""Responds at once, later or in parts, with fields of its own."""

import asyncio
from typing import Any

FIELDS = [(b"X-Cache", b"hit"), (b"x-cache", b"a b"), (b"content-type", b"text/x")]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond."""
    if scope["type"] != "http":
        return
    path = scope["path"]
    received = 0
    while scope["method"] == "POST":
        message = await receive()
        received += len(message["body"])
        if not message["more_body"]:
            break
    if path == "/later":
        await asyncio.sleep(0)
    fields = FIELDS if path != "/plain" else []
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    content = str(received).encode()
    await send({"type": "http.response.body", "body": content, "more_body": path == "/streamed"})
    if path == "/streamed":
        await asyncio.sleep(0.1)
        await send({"type": "http.response.body", "body": b"b"})
