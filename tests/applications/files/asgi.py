"""An ASGI application that sends the file which the environment names."""

from __future__ import annotations

import os
from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Send the file, or respond at once."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/file":
        await send({"type": "http.response.pathsend", "path": os.environ["SENT_FILE"]})
    else:
        await send({"type": "http.response.body", "body": b"hello"})
