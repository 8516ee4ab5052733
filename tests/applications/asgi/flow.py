"""Applications that send or receive more than fits, and report how far they came."""

import asyncio
from typing import Any

from kinds import START, Kinds, Receive, Send, part, respond, word

kinds = Kinds()
app = kinds.app

PART = b"x" * 65536
STUCK_S = 0.3


@kinds
async def flood(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts without end; when one stays unaccepted for a while, note how much was accepted.

    A task waits for the client's end meanwhile.
    """
    await receive()
    watcher = asyncio.ensure_future(receive())
    await send(START)
    accepted = 0
    while True:
        sending = asyncio.ensure_future(part(send, PART))
        done, _ = await asyncio.wait({sending}, timeout=STUCK_S)
        if not done:
            break
        await sending
        accepted += len(PART)
    kinds.seen["accepted"] = accepted
    if word(scope, 2) == "cancels":
        sending.cancel()
        await asyncio.wait({sending})
        return await part(send, b"the end", more=False)
    try:
        await sending
        if word(scope, 2) == "ends":
            kinds.count("went on")
            return await part(send, b"the end", more=False)
        while True:
            await part(send, PART)
    except OSError as error:
        kinds.seen["stuck"] = [type(error).__name__, (await watcher)["type"]]


@kinds
async def count(scope: Any, receive: Receive, send: Send) -> None:
    """Read a content when it is let, and respond with its size."""
    await kinds.held()
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    await respond(send, b"%d" % size)


@kinds
async def forget(scope: Any, receive: Receive, send: Send) -> None:
    """Forget what was noted."""
    kinds.seen.clear()
    await respond(send, b"forgotten")
