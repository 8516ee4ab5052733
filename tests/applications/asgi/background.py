"""Applications that work after their responses, or ask again and again for their client."""

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import anyio
from kinds import Kinds, Receive, Send, part, respond, word

kinds = Kinds()


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Serve, and say when the lifespan ends."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        say(message["type"])
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await kinds.app(scope, receive, send)


def say(text: str) -> None:
    """Write a line that the test reads."""
    print(text, file=sys.stderr, flush=True)


@kinds
async def work(scope: Any, receive: Receive, send: Send) -> None:
    """Respond at once, later or in parts, and go on until a file is there: /work/HOW?PATH."""
    how, path = word(scope, 2), Path(scope["query_string"].decode())
    if how == "later":
        await asyncio.sleep(0)
    if how == "parts":
        await send({"type": "http.response.start", "status": 200})
        await part(send, b"do")
        await part(send, b"ne", more=False)
    else:
        await respond(send, b"done")
    say("work begins")
    try:
        while not path.exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        say("work is cancelled")
        raise
    say("work ends")


@kinds
async def polls(scope: Any, receive: Receive, send: Send) -> None:
    """Ask many times whether the client is there, as Starlette does; report what that leaves."""
    await receive()
    await send({"type": "http.response.start", "status": 200})

    async def is_gone() -> bool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            return (await receive())["type"] == "http.disconnect"
        return False

    futures = []
    for _ in range(3):
        for _ in range(200):
            assert not await is_gone()
        gc.collect()
        futures.append(sum(isinstance(each, asyncio.Future) for each in gc.get_objects()))
    await part(send, repr(futures).encode(), more=False)
