"""Shows scopes, and changes everything in them afterwards."""

from typing import Any

from kinds import Receive, Send, respond

SHARED: list[str] = []


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Respond with the scope as a Python literal."""
    if scope["type"] == "lifespan":
        scope["state"].update(shared=SHARED, plain="as it was")
        raise NotImplementedError
    shown = repr({**scope, "headers": list(scope["headers"])}).encode()
    scope["state"]["shared"].append(scope["method"])
    for inner in (scope["asgi"], scope["state"], scope.get("extensions") or {}, scope):
        for key in inner.keys() - {"asgi", "extensions", "shared"}:
            inner[key] = "changed"
        inner["more"] = "changed"
    await respond(send, shown)
