"""An ASGI application that shows scopes, and lets an allocation of the next request fail."""

from __future__ import annotations

import _testcapi
from typing import Any

SHOWN = ("type", "http_version", "method", "scheme", "root_path", "path", "raw_path")
SHOWN_TOO = ("query_string", "headers")


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with the scope; /refuse/N lets the N-th allocation from then on fail."""
    _testcapi.remove_mem_hooks()
    assert scope["type"] == "http"
    shown = repr({name: scope[name] for name in (*SHOWN, *SHOWN_TOO)}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": shown})
    _, kind, *rest = scope["path"].split("/")
    if kind == "refuse":
        number = int(rest[0])
        _testcapi.set_nomemory(number, number + 1)
