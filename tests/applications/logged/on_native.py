"""Responds at once, later, in parts or slowly, with fields of its own."""

import asyncio
import time
from collections.abc import AsyncIterator

import bolide

app = bolide.App()
FIELDS = [("X-Cache", "hit"), ("x-cache", "a b"), ("Content-Type", "text/x")]


@app.get("/")
def respond(request: bolide.Request) -> bolide.Response:
    """Respond at once."""
    return bolide.Response(b"a", headers=FIELDS)


@app.get("/plain")
def respond_plainly(request: bolide.Request) -> str:
    """Respond without fields of its own."""
    return "a"


@app.get("/later")
async def respond_later(request: bolide.Request) -> bolide.Response:
    """Respond after the first step."""
    await asyncio.sleep(0)
    return bolide.Response(b"a", headers=FIELDS)


@app.get("/streamed")
async def stream(request: bolide.Request) -> bolide.Response:
    """Respond at once, and end later."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0.1)
        yield b"b"

    return bolide.Response(parts(), headers=FIELDS)


@app.post("/whole")
def take(request: bolide.Request) -> str:
    """Take the content as a whole."""
    return str(len(request.body()))


@app.post("/parts")
async def read(request: bolide.Request) -> str:
    """Read the content part by part."""
    return str(sum([len(part) async for part in request.stream()]))


@app.get("/slow")
async def wait(request: bolide.Request) -> str:
    """Respond after some time."""
    await asyncio.sleep(0.5)
    return "slow"


@app.post("/held")
async def hold(request: bolide.Request) -> str:
    """Respond some time after the content."""
    async for _ in request.stream():
        pass
    await asyncio.sleep(0.5)
    return "held"


@app.get("/blocked")
def block(request: bolide.Request) -> str:
    """Respond after some time in which nothing else runs."""
    time.sleep(0.1)
    return "blocked"
