"""An ASGI application that forks a process which comes back from it."""

from __future__ import annotations

import asyncio
from typing import Any

from native import fork


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Fork before or after a suspension."""
    assert scope["type"] == "http"
    _, when, *how = scope["path"].split("/")
    if when == "later":
        await asyncio.sleep(0)
    content = fork(how[0]) if how else "hello"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": content.encode()})
