"""Responds with the fields about traces."""

import json
from typing import Any

NAMES = (b"traceparent", b"tracestate", b"baggage")


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with them in their order."""
    if scope["type"] != "http":
        return
    lines = [(name.decode(), value.decode()) for name, value in scope["headers"] if name in NAMES]
    content = json.dumps(lines).encode()
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
