"""The ASGI application: what its scope says, and responses of every kind."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

counts: Counter[str] = Counter()


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Do what the path says."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    kind, *arguments = scope["path"].removeprefix("/").split("/")
    if kind == "scope":
        await respond(send, json.dumps(shown(scope)).encode())
    elif kind == "parts":
        await parts(send, int(arguments[0]))
    elif kind == "counts":
        await respond(send, json.dumps(counts).encode())
    elif kind in KINDS:
        await KINDS[kind](receive, send)
    else:
        await respond(send, kind.encode() or b"hello")


async def parts(send: Send, count: int) -> None:
    """Stream parts."""
    await start(send)
    for _ in range(count):
        await send({"type": "http.response.body", "body": b"p" * 1000, "more_body": True})
    await send({"type": "http.response.body"})


async def echo(receive: Receive, send: Send) -> None:
    """Respond with the content."""
    await respond(send, await content_of(receive))


async def cut(receive: Receive, send: Send) -> None:
    """Fail after a part."""
    await start(send)
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise ValueError("the other half")


def shown(scope: Any) -> dict[str, Any]:
    """Return what JSON can hold of a scope."""
    found = {name: scope[name] for name in ("type", "http_version", "scheme", "method", "path")}
    found["raw_path"] = scope["raw_path"].decode()
    found["query_string"] = scope["query_string"].decode()
    found["headers"] = [[name.decode(), value.decode()] for name, value in scope["headers"]]
    return found


async def start(send: Send) -> None:
    """Send the header section."""
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def respond(send: Send, content: bytes) -> None:
    """Send a whole response."""
    await start(send)
    await send({"type": "http.response.body", "body": content})


async def content_of(receive: Receive) -> bytes:
    """Read all content."""
    content, is_last = b"", False
    while not is_last:
        message = await receive()
        assert message["type"] == "http.request", message
        content += message.get("body", b"")
        is_last = not message.get("more_body", False)
    return content


async def watch(receive: Receive, send: Send) -> None:
    """Count messages until the client's end; respond nothing."""
    while True:
        message = await receive()
        counts[message["type"]] += 1
        if message["type"] == "http.disconnect":
            return


released = asyncio.Event()


async def hold(receive: Receive, send: Send) -> None:
    """Wait for a release, whatever the client does."""
    counts["started"] += 1
    await released.wait()
    counts["finished"] += 1
    await respond(send, b"held")


async def release(receive: Receive, send: Send) -> None:
    """Let what is held go on."""
    released.set()
    await respond(send, b"released")


async def endless(receive: Receive, send: Send) -> None:
    """Stream until `send` fails."""
    await start(send)
    counts["endless"] += 1
    try:
        while True:
            await send({"type": "http.response.body", "body": b"e" * 1000, "more_body": True})
            await asyncio.sleep(0)
    except OSError:
        counts["ended"] += 1


KINDS = {
    "echo": echo,
    "cut": cut,
    "watch": watch,
    "endless": endless,
    "hold": hold,
    "release": release,
}
