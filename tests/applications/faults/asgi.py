"""The ASGI application of the fault matrix: the query names the request."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from noted import fail, hang, note, noted, reply

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to what the path asks for."""
    if scope["type"] == "lifespan":
        for name in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{name}.complete"})
        return
    if scope["type"] == "websocket":
        await echo(receive, send)
        return
    query = {name: value[0] for name, value in parse_qs(scope["query_string"].decode()).items()}
    _, name, *rest = scope["path"].split("/")
    if name == "tasks":
        await respond(send, str(len(asyncio.all_tasks()) - 1).encode())
    elif name == "raise":
        await raises(send, query, *rest)
    else:
        with noted(query["id"]):
            await ordinary(name, rest, query, receive, send)


async def ordinary(
    name: str, rest: list[str], query: dict[str, str], receive: Receive, send: Send
) -> None:
    if name == "work":
        await asyncio.sleep(int(query["ms"]) / 1000)
    elif name == "block":
        time.sleep(int(query["ms"]) / 1000)
    elif name == "hang":
        hang(*rest)
    elif name == "upload":
        await respond(send, await read(query, receive))
        return
    elif name == "stream":
        await stream(send, query["id"], int(query["size"]), int(query.get("ms", "0")) / 1000)
        return
    await respond(send, reply(query["id"], int(query.get("size", "0"))))


async def respond(send: Send, content: bytes) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


async def read(query: dict[str, str], receive: Receive) -> bytes:
    digest, size, is_more = hashlib.sha256(), 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        digest.update(message.get("body", b""))
        size += len(message.get("body", b""))
        is_more = message.get("more_body", False)
    return f"{query['id']} {size} {digest.hexdigest()}".encode()


async def stream(send: Send, identity: str, size: int, pause_s: float) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    part = reply(identity, min(size, 65536))
    left = size
    while left > 0:
        await send({"type": "http.response.body", "body": part[:left], "more_body": True})
        left -= len(part)
        if pause_s:
            await asyncio.sleep(pause_s)
    await send({"type": "http.response.body", "body": b""})


async def raises(send: Send, query: dict[str, str], kind: str, when: str) -> None:
    note("begun", query["id"])
    if when == "before":
        fail(kind)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if when == "start":
        fail(kind)
    await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})
    await asyncio.sleep(0)
    if when == "middle":
        fail(kind)
    await send({"type": "http.response.body", "body": b"x" * 100})
    fail(kind)


async def echo(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})
