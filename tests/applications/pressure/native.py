"""The native application: the path says what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from state import PART, Pulse, block_thread, fork, seen

from bolide import App, Request, Response

METHODS = ["GET", "POST"]

app = App()
pulse = Pulse()
released = asyncio.Event()


@app.on_startup
async def startup() -> None:
    pulse.beat()


@app.get("/hello")
def hello(request: Request) -> str:
    """Respond at once."""
    return "hello"


@app.route("/early", METHODS)
async def early(request: Request) -> str:
    """Suspend, and respond without reading the content."""
    await asyncio.sleep(0)
    return "early"


@app.route("/held/{size:int}", METHODS)
async def held(request: Request, size: int) -> bytes:
    """Wait for a release, and respond with so many bytes without reading the content."""
    seen["held"] += 1
    await released.wait()
    return b"h" * size


@app.get("/release")
def release(request: Request) -> str:
    """Let those go on that wait."""
    global released
    released.set()
    released = asyncio.Event()
    return "released"


@app.get("/seen")
def show(request: Request) -> dict[str, Any]:
    return seen


@app.get("/gap")
def gap(request: Request) -> str:
    """Report how many calls blocked the event loop between two beats of its timer, at most."""
    return str(pulse.take_gap_max())


@app.get("/block/{milliseconds:int}/{number}")
def block(request: Request, milliseconds: int, number: str) -> str:
    """Block the worker, and respond with the number."""
    block_thread(milliseconds)
    return number


@app.get("/block-later/{milliseconds:int}/{number}")
async def block_later(request: Request, milliseconds: int, number: str) -> str:
    """Do the same in a coroutine, which does not suspend."""
    block_thread(milliseconds)
    return number


@app.get("/wait/{milliseconds:int}")
async def wait(request: Request, milliseconds: int) -> str:
    """Respond after a while."""
    await asyncio.sleep(milliseconds / 1000)
    return "waited"


@app.get("/big/{size:int}")
def big(request: Request, size: int) -> bytes:
    """Respond with so many bytes."""
    return b"b" * size


@app.get("/parts/{count:int}")
def parts(request: Request, count: int) -> Iterator[bytes]:
    """Stream parts from an iterator."""
    return (PART for _ in range(count))


@app.get("/parts-later/{count:int}")
async def parts_later(request: Request, count: int) -> Response:
    """Stream parts from an asynchronous iterator."""

    async def iterate() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield PART

    return Response(iterate())


@app.get("/part-held")
async def part_held(request: Request) -> Response:
    """Stream a part, and wait for a release before the next."""

    async def iterate() -> AsyncIterator[bytes]:
        yield PART
        seen["held"] += 1
        await released.wait()
        yield PART

    return Response(iterate())


@app.post("/read")
async def read(request: Request) -> str:
    """Respond with the size of the content."""
    return str(len(await request.body()))


@app.post("/read-big/{size:int}")
async def read_big(request: Request, size: int) -> bytes:
    """Read the content, and respond with so many bytes."""
    await request.body()
    return b"b" * size


@app.get("/fork")
def fork_child(request: Request) -> str:
    """Fork a process, and respond with its id."""
    return str(fork())
