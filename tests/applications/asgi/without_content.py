"""Applications that go on after a response without content is complete."""

import asyncio
from typing import Any

from kinds import START, Kinds, Receive, Send, part

kinds = Kinds()
app = kinds.app


@kinds
async def stream(scope: Any, receive: Receive, send: Send) -> None:
    """Send for ever in one task, and end it when another one has received the disconnection."""

    async def send_parts() -> None:
        await send(START)
        while True:
            await part(send, b"part")
            await asyncio.sleep(0.01)

    kinds.count("begun")
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(send_parts())
        while (await receive())["type"] != "http.disconnect":
            pass
        sending.cancel()
    kinds.count("ended")


@kinds
async def endless(scope: Any, receive: Receive, send: Send) -> None:
    """Send for ever, and never wait for anything else."""
    await send(START)
    try:
        while True:
            await part(send, b"part")
    except OSError:
        kinds.count("refused")
        raise


@kinds
async def early(scope: Any, receive: Receive, send: Send) -> None:
    """Respond with 204 before the content has arrived, and read on."""
    await send({"type": "http.response.start", "status": 204})
    await part(send, b"")
    kinds.count("begun")
    while (await receive())["type"] != "http.disconnect":
        pass
    kinds.count("ended")
