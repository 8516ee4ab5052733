"""Handlers that go on when their clients have left, and say on standard error how far they are."""

import asyncio
import sys
from typing import Any

import bolide


def say(text: str) -> None:
    """Write a line that the test waits for."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


async def wait() -> None:
    """Wait for ever."""
    say("begun")
    await asyncio.Event().wait()


native = bolide.App()


@native.get("/waits")
async def waits(request: bolide.Request) -> str:
    """Never respond."""
    await wait()
    return "never"


@native.get("/quick")
def quick(request: bolide.Request) -> str:
    """Respond at once."""
    return "quick"


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Do as the path says; `/works` responds to nobody, and then works for longer than the time."""
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/waits":
        await wait()
    elif scope["path"] == "/works":
        say("begun")
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})
        await asyncio.sleep(1)
        say("has worked")
    else:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"quick"})
