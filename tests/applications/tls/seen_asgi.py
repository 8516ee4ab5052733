"""An ASGI application that says what it sees of a TLS session, and changes it."""

import json
import os
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    seen = {
        "pid": os.getpid(),
        "scheme": scope["scheme"],
        "extensions": sorted(scope["extensions"]),
        "tls": scope["extensions"].get("tls"),
    }
    content = json.dumps(seen).encode()
    if scope["path"] == "/change" and "tls" in scope["extensions"]:
        scope["extensions"]["tls"]["tls_version"] = 0
        scope["extensions"]["tls"]["mine"] = True
    headers = [(b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
