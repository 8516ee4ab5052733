"""A lifespan that does what LIFESPAN says, and reports it on standard error."""

import asyncio
import os
import sys
from typing import Any

from kinds import Receive, Send, respond

WAY = os.environ.get("LIFESPAN", "")
SEEN: dict[str, Any] = {"requests": 0}


def say(*words: object) -> None:
    """Write a line in one piece."""
    sys.stderr.write(" ".join(map(str, words)) + "\n")
    sys.stderr.flush()


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Serve lifespan and http."""
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    SEEN["requests"] += 1
    if scope["path"] == "/held":
        say("request begins")
        await asyncio.to_thread(read, os.environ["RELEASE"])
        await respond(send, b"held")
        say("request ends")
    else:
        is_same = SEEN.get("loop") is asyncio.get_running_loop()
        await respond(send, f"{os.getpid()} {is_same}".encode())


def read(path: str) -> None:
    """Wait for somebody who opens a FIFO and writes to it."""
    with open(path, "rb") as fifo:
        fifo.read(1)


async def lifespan(scope: Any, receive: Receive, send: Send) -> None:
    """Start and stop."""
    if WAY == "raises":
        raise RuntimeError("no lifespan")
    if WAY == "returns":
        return
    message = await receive()
    say(message["type"], os.getpid(), sorted(scope))
    SEEN["loop"] = asyncio.get_running_loop()
    if WAY in ERRORS:
        raise ERRORS[WAY]
    if WAY == "held":
        await asyncio.to_thread(read, os.environ["RELEASE"])
        say("startup ends with", SEEN["requests"], "requests")
    await send(STARTUPS.get(WAY, {"type": "lifespan.startup.complete"}))
    if WAY == "startup-failed-raising":
        raise RuntimeError("no database")
    if WAY == "raises-after-startup":
        raise RuntimeError("gone")
    if WAY == "exits-after-startup":
        sys.exit("gone")
    if WAY in STARTUPS or WAY == "ends-after-startup":
        return
    message = await receive()
    say(message["type"], "after", SEEN["requests"], "requests")
    await shutdown(send)
    say("shutdown is complete")


ERRORS: dict[str, BaseException] = {
    "raises-at-startup": RuntimeError("broken"),
    "cancels-at-startup": asyncio.CancelledError("broken"),
    "closes-at-startup": GeneratorExit("broken"),
    "raises-no-exception-at-startup": type("OddError", (BaseException,), {})("broken"),
}
STARTUPS = {
    "startup-failed": {"type": "lifespan.startup.failed", "message": "no database"},
    "startup-failed-silently": {"type": "lifespan.startup.failed"},
    "startup-failed-raising": {"type": "lifespan.startup.failed"},
}


async def shutdown(send: Send) -> None:
    """Stop, or not."""
    if WAY == "shutdown-failed":
        return await send({"type": "lifespan.shutdown.failed", "message": "no goodbye"})
    if WAY == "raises-at-shutdown":
        raise RuntimeError("no goodbye")
    if WAY == "exits-at-shutdown":
        sys.exit("no goodbye")
    if WAY == "never-shuts-down":
        await asyncio.get_running_loop().create_future()
    await send({"type": "lifespan.shutdown.complete"})
