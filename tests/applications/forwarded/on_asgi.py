"""Says what its scopes have of the client, for requests and WebSockets."""

import json
from typing import Any


def seen(scope: dict[str, Any]) -> bytes:
    """Return it as JSON."""
    fields = [(name.decode(), value.decode("latin-1")) for name, value in scope["headers"]]
    return json.dumps(
        {
            "client": scope["client"],
            "scheme": scope["scheme"],
            "host": dict(fields)["host"],
            "root_path": scope["root_path"],
            "path": scope["path"],
            "server": scope["server"],
            "fields": fields,
        }
    ).encode()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with it, or send it as the first message."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": seen(scope).decode()})
        return await send({"type": "websocket.close"})
    if scope["type"] != "http":
        return
    content = seen(scope)
    length = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": content})
