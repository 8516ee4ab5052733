"""The ASGI applications: one that responds in its first step, and one that suspends first."""

import asyncio
from typing import Any

from acts import Act, act, failure


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Respond at once."""
    if scope["type"] == "lifespan":
        raise NotImplementedError
    content, more = b"", True
    while more:
        message = await receive()
        content += message["body"]
        more = message["more_body"]
    host = b",".join(value for name, value in scope["headers"] if name == b"host").decode()
    await respond(send, act(scope["method"], scope["path"], scope["query_string"], content, host))


async def later(scope: Any, receive: Any, send: Any) -> None:
    """Respond after a suspension."""
    await asyncio.sleep(0)
    await app(scope, receive, send)


async def respond(send: Any, act: Act) -> None:
    """Send the response."""
    if act.fails == "before":
        raise failure()
    headers = [(name.encode(), value.encode()) for name, value in act.fields]
    await send({"type": "http.response.start", "status": act.status, "headers": headers})
    for part in act.parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    if act.fails == "inside":
        raise failure()
    await send({"type": "http.response.body", "body": act.content})
