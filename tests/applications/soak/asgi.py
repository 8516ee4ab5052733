"""The ASGI application of the soak."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from counted import COUNTS, count_tasks, counted, parts, reply

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to what the path asks for."""
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    query = dict(parse_qsl(scope["query_string"].decode()))
    with counted(query):
        if scope["type"] == "websocket":
            await echo(query, receive, send)
        else:
            await respond(scope["path"], query, receive, send)


async def live(receive: Receive, send: Send) -> None:
    await receive()
    watcher = asyncio.create_task(count_tasks())
    await send({"type": "lifespan.startup.complete"})
    await receive()
    watcher.cancel()
    await send({"type": "lifespan.shutdown.complete"})


async def respond(path: str, query: dict[str, str], receive: Receive, send: Send) -> None:
    if path == "/raise":
        raise ValueError("of the soak")
    if path == "/later":
        await asyncio.sleep(0.002)
    if path == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in parts(query):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    content = await read(query, receive) if path in ("/upload", "/whole") else reply(query)
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


async def read(query: dict[str, str], receive: Receive) -> bytes:
    size, is_more = 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        size += len(message.get("body", b""))
        is_more = message.get("more_body", False)
    return reply(query, size)


async def echo(query: dict[str, str], receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        COUNTS.add(f"{query['kind']} octets", len(message["text"]))
        COUNTS.add(f"{query['kind']} made", len(message["text"]))
        await send({"type": "websocket.send", "text": message["text"]})
