"""An application whose handlers do what a test of the protocol needs: stream, wait, misbehave."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from bolide import App, Request, Response

app = App()


@app.get("/")
def hello(request: Request) -> str:
    """Say hello."""
    return "hello"


@app.get("/big/{size:int}")
def big(request: Request, size: int) -> bytes:
    """Respond with that many bytes."""
    return b"x" * size


@app.get("/status/{status:int}")
def status(request: Request, status: int) -> Response:
    """Respond with a status, and with content if it may have some."""
    return Response(None if status in (204, 304) else "content", status=status)


@app.post("/read")
def read(request: Request) -> str:
    """Report how much content there is."""
    return str(len(request.body()))


@app.post("/read-later")
async def read_later(request: Request) -> str:
    """Report how much content there is, read by a coroutine."""
    return str(len(await request.body()))


@app.post("/early")
async def early(request: Request) -> str:
    """Respond without a look at the content."""
    return "early"


@app.get("/wait/{milliseconds:int}")
async def wait(request: Request, milliseconds: int) -> str:
    """Respond after a while."""
    await asyncio.sleep(milliseconds / 1000)
    return f"waited {milliseconds}"


@app.route("/blocks/{milliseconds:int}", ["GET", "POST"])
def block(request: Request, milliseconds: int) -> str:
    """Respond after a while in which the worker does nothing else."""
    time.sleep(milliseconds / 1000)
    return "blocked"


together: list[asyncio.Future[None]] = []


@app.get("/together/{count:int}")
async def meet(request: Request, count: int) -> str:
    """Respond when that many requests are being handled at once."""
    here = asyncio.get_running_loop().create_future()
    together.append(here)
    if len(together) == count:
        for each in together:
            each.set_result(None)
        together.clear()
    await here
    return "together"


@app.get("/stream/{parts:int}")
def stream(request: Request, parts: int) -> Iterator[bytes]:
    """Stream parts of 1000 bytes."""
    return (b"p" * 1000 for _ in range(parts))


@app.get("/stream-later/{parts:int}")
async def stream_later(request: Request, parts: int) -> Response:
    """Stream parts of 1000 bytes from an async iterator."""

    async def iterate() -> AsyncIterator[bytes]:
        for _ in range(parts):
            yield b"p" * 1000

    return Response(iterate())


@app.get("/cut")
def cut(request: Request) -> Iterator[bytes]:
    """Fail in the middle of a response."""
    yield b"half"
    raise ValueError("the other half")


@app.get("/cut-later")
async def cut_later(request: Request) -> Response:
    """Fail in the middle of a response, in a coroutine."""

    async def iterate() -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.sleep(0)
        raise ValueError("the other half")

    return Response(iterate())


@app.get("/raises")
def raises(request: Request) -> str:
    """Fail before the response."""
    raise ValueError("no response")


NONSENSE: dict[str, Callable[[], object]] = {
    "type": object,
    "status": lambda: ("text", 99),
    "split": lambda: Response("text", headers={"X": "a\r\nSet-Cookie: b"}),
    "nul": lambda: Response("text", headers={"X": "a\0b"}),
    "name": lambda: Response("text", headers={"X Y": "a"}),
    "length": lambda: Response("text", headers={"Content-Length": "100"}),
    "coding": lambda: Response("text", headers={"Transfer-Encoding": "chunked"}),
}


@app.get("/nonsense/{kind}")
def nonsense(request: Request, kind: str) -> Any:
    """Return a response that no peer must ever see."""
    return NONSENSE[kind]()
