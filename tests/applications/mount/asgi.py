"""ASGI applications that report what they see; NAMED makes one with a lifespan of its own."""

import asyncio
import os
import sys
from typing import Any

from context import context, note


def named(name: str) -> Any:
    """Make an application whose lifespan reports itself."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await lifespan(name, scope, receive, send)
        await KINDS.get(scope["path"].rpartition("/")[2], shown)(scope, receive, send)

    return app


async def lifespan(name: str, scope: Any, receive: Any, send: Any) -> None:
    """Do what FAILS says."""
    scope["state"]["name"] = name
    for stage in ("startup", "shutdown"):
        await receive()
        fails = os.environ.get("FAILS") == f"{name} {stage}"
        print(name, stage, file=sys.stderr, flush=True)
        if fails:
            return await send({"type": f"lifespan.{stage}.failed", "message": "on request"})
        await send({"type": f"lifespan.{stage}.complete"})


async def begin(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})


async def part(send: Any, content: str, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": content.encode(), "more_body": more})


async def shown(scope: Any, receive: Any, send: Any) -> None:
    await begin(send)
    words = [scope["state"]["name"], scope["root_path"], scope["path"]]
    await part(send, f"{' '.join(words)} {scope['raw_path'].decode()}", more=False)


async def now(scope: Any, receive: Any, send: Any) -> None:
    await begin(send)
    await part(send, context(), more=False)


async def later(scope: Any, receive: Any, send: Any) -> None:
    first = context()
    await asyncio.sleep(0)
    await begin(send)
    await part(send, first + context(), more=False)


async def parts(scope: Any, receive: Any, send: Any) -> None:
    await begin(send)
    for _ in range(3):
        await part(send, context())
    await part(send, "", more=False)


async def endless(scope: Any, receive: Any, send: Any) -> None:
    await begin(send)
    await part(send, "begun")
    await receive()
    while (await receive())["type"] != "http.disconnect":
        pass
    note("asgi")


async def count(scope: Any, receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await begin(send)
    await part(send, str(size), more=False)


async def raises(scope: Any, receive: Any, send: Any) -> None:
    context()
    raise RuntimeError("on purpose")


KINDS = {each.__name__: each for each in (now, later, parts, endless, count, raises)}
