"""Applications that send or receive more than fits, and report how far they came."""

import asyncio
from typing import Any

from kinds import START, Kinds, Receive, Send, part, respond, word

kinds = Kinds()
app = kinds.app

PART = b"x" * 65536
STUCK_S = 0.3


async def send_until_stuck(send: Send) -> asyncio.Future[None]:
    """Send parts until one stays unaccepted for a while, which is returned; note the others."""
    accepted = 0
    while True:
        sending = asyncio.ensure_future(part(send, PART))
        done, _ = await asyncio.wait({sending}, timeout=STUCK_S)
        if not done:
            kinds.seen["accepted"] = accepted
            return sending
        await sending
        accepted += len(PART)


@kinds
async def flood(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts until the client does not read, then do what the path says.

    A task waits for the client's end meanwhile.
    """
    await receive()
    watcher = asyncio.ensure_future(receive())
    await send(START)
    sending = await send_until_stuck(send)
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
async def elsewhere(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts from another thread's loop until the client does not read, and then the end."""

    async def parts() -> None:
        await send(START)
        try:
            await (await send_until_stuck(send))
        except OSError as error:
            kinds.seen["stuck"] = [type(error).__name__]
        else:
            await part(send, b"the end", more=False)

    await asyncio.to_thread(asyncio.run, parts())


@kinds
async def parts_elsewhere(scope: Any, receive: Receive, send: Send) -> None:
    """Send so many parts from another thread's loop."""

    async def parts() -> None:
        await send(START)
        for _ in range(int(word(scope, 2))):
            await part(send, PART)
        await part(send, b"the end", more=False)

    await asyncio.to_thread(asyncio.run, parts())


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
