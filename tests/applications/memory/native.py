"""The native application: content and responses of any length."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from bolide import App, Request, Response

app = App()


@app.get("/hello")
def hello(request: Request) -> str:
    """Respond at once."""
    return "hello"


@app.get("/wait")
async def wait(request: Request) -> str:
    """Respond when nobody waits any more."""
    await asyncio.sleep(60)
    return "late"


@app.post("/echo")
def echo(request: Request) -> bytes:
    """Respond with the content, which is there when this is called."""
    return request.read()


@app.post("/echo-later")
async def echo_later(request: Request) -> bytes:
    """Read the content as it comes, and respond with it."""
    return await request.body()


@app.get("/big/{size:int}")
def big(request: Request, size: int) -> bytes:
    """Respond with so many bytes."""
    return bytes(size)


@app.get("/part/{size:int}")
def part(request: Request, size: int) -> Iterator[bytes]:
    """Send so many bytes in one part of a stream."""
    return iter([bytes(size)])


@app.get("/part-later/{size:int}")
async def part_later(request: Request, size: int) -> Response:
    """Do the same in a coroutine."""

    async def iterate() -> AsyncIterator[bytes]:
        yield b"first"
        yield bytes(size)

    return Response(iterate())
