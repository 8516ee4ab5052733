"""Applications whose clients leave: what they learn of it, how, and what they do then."""

import asyncio
import time
from typing import Any

from kinds import START, Kinds, Receive, Send, part, respond, turns, word

kinds = Kinds()
app = kinds.app

PAUSE_S = 0.05


async def disconnected(receive: Receive) -> None:
    """Receive until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def note_end(name: str, error: OSError) -> None:
    """Note how something ended."""
    kinds.seen[name] = type(error).__name__
    kinds.count("ended")


@kinds
async def waits(scope: Any, receive: Receive, send: Send) -> None:
    """Send nothing, or a start, or a part, and wait for the client's end."""
    way = word(scope, 2)
    if way != "nothing":
        await send(START)
    if way == "part":
        await part(send, b"part")
    kinds.count("begun")
    await disconnected(receive)
    kinds.count("ended")


@kinds
async def sends(scope: Any, receive: Receive, send: Send) -> None:
    """Send for ever, without ever receiving."""
    await send(START)
    kinds.count("begun")
    try:
        while True:
            await part(send, b"part")
            await asyncio.sleep(PAUSE_S)
    except OSError as error:
        note_end("sends", error)
        raise


@kinds
async def both(scope: Any, receive: Receive, send: Send) -> None:
    """Send for ever in one task, and end it when another one has received the client's end."""

    async def stream() -> None:
        await send(START)
        kinds.count("begun")
        while True:
            await part(send, b"x" * 65536)
            if word(scope, 2) == "pausing":
                await asyncio.sleep(PAUSE_S)

    async with asyncio.TaskGroup() as group:
        streaming = group.create_task(stream())
        await disconnected(receive)
        streaming.cancel()
    kinds.count("ended")


@kinds
async def deaf(scope: Any, receive: Receive, send: Send) -> None:
    """Send for ever, though a task has received the client's end."""
    watcher = asyncio.ensure_future(disconnected(receive))
    await send(START)
    kinds.count("begun")
    try:
        while True:
            await part(send, b"x" * 65536)
    except OSError as error:
        await watcher
        note_end("deaf", error)


@kinds
async def again(scope: Any, receive: Receive, send: Send) -> None:
    """Begin another response after one that the client's end has stopped, as FastMCP does."""
    await send(START)
    await part(send, b"part")
    if word(scope, 2) == "complete":
        watcher = asyncio.ensure_future(disconnected(receive))
        kinds.count("begun")
        await watcher
        await part(send, b"", more=False)
    else:
        kinds.count("begun")
        await disconnected(receive)
    await respond(send, b"another")
    kinds.count("ended")


class ClientDisconnect(Exception):  # noqa: N818 - as in Starlette
    """What Starlette makes of a disconnect inside of a content."""


@kinds
async def upload(scope: Any, receive: Receive, send: Send) -> None:
    """Raise when the client leaves inside of its content."""
    more = True
    kinds.count("begun")
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            kinds.count("ended")
            raise ClientDisconnect
        more = message["more_body"]


@kinds
async def watched(scope: Any, receive: Receive, send: Send) -> None:
    """Stream some parts in some time, unless the client leaves."""
    watcher = asyncio.ensure_future(disconnected(receive))
    parts = int(word(scope, 2))
    await send(START)
    for _ in range(parts):
        await asyncio.sleep(PAUSE_S)
        if watcher.done():
            return
        await part(send, b"part")
    await part(send, b"", more=False)


@kinds
async def late(scope: Any, receive: Receive, send: Send) -> None:
    """Respond after some time, and note when a task has received the client's end."""
    began = time.monotonic()

    async def watch() -> None:
        await disconnected(receive)
        kinds.seen["received after"] = time.monotonic() - began

    watcher = asyncio.ensure_future(watch())
    kinds.count("begun")
    await asyncio.sleep(float(word(scope, 2)))
    await respond(send, b"late")
    await watcher


@kinds
async def slow(scope: Any, receive: Receive, send: Send) -> None:
    """Send a start, and content when it is let."""
    if word(scope, 2) == "later":
        await turns(2)
    await send(START)
    await kinds.held()
    await respond_rest(send)


async def respond_rest(send: Send) -> None:
    """Send the content of a response that has begun."""
    await send({"type": "http.response.body", "body": b"content"})
