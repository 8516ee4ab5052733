"""Says which id its scopes have."""

import asyncio
import json
from typing import Any


def seen(scope: dict[str, Any]) -> bytes:
    """Return it as JSON."""
    values = [value.decode() for name, value in scope["headers"] if name == b"x-request-id"]
    extension = scope["extensions"].get("bolide.request_id")
    return json.dumps({"id": extension and extension["id"], "fields": values}).encode()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with it, or send it as the first message."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": seen(scope).decode()})
        return await send({"type": "websocket.close"})
    if scope["type"] != "http":
        return
    path = scope["path"]
    if path == "/raise":
        raise RuntimeError("as expected")
    if path in ("/later", "/raise-later"):
        await asyncio.sleep(0)
    if path == "/raise-later":
        raise RuntimeError("as expected")
    while scope["method"] == "POST" and (await receive())["more_body"]:
        pass
    content = seen(scope)
    headers = [(b"content-length", str(len(content)).encode())] if path != "/streamed" else []
    headers += [(b"X-Request-ID", b"own")] if path == "/own" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": path == "/streamed"})
    if path == "/streamed":
        await send({"type": "http.response.body"})
