"""Raw ASGI applications: a hello, one that sleeps, one that streams, one that reads an upload."""

import asyncio
from typing import Any

HELLO_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"13"),
    ],
}
STREAM_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/octet-stream")],
}
PART = b"x" * 4096
PARTS = 16


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """Respond with 13 bytes."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await send(HELLO_START)
    await send({"type": "http.response.body", "body": b"Hello, World!"})


async def sleep(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the same bytes after 10 ms."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await asyncio.sleep(0.01)
    await send(HELLO_START)
    await send({"type": "http.response.body", "body": b"Hello, World!"})


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Respond with 64 KiB in parts of 4 KiB, without a length."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await send(STREAM_START)
    for _ in range(PARTS):
        await send({"type": "http.response.body", "body": PART, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def upload(scope: Any, receive: Any, send: Any) -> None:
    """Read the content and respond with its size."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    content = b"%d" % size
    length = b"%d" % len(content)
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
    await send(start)
    await send({"type": "http.response.body", "body": content})


async def lifespan(receive: Any, send: Any) -> None:
    """Agree to start and to end."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
