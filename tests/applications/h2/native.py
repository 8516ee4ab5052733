"""The native application: what it has run, and responses of every kind."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from bolide import App, Request, Response

app = App()
counts: Counter[str] = Counter()
released = asyncio.Event()


@app.get("/")
def hello(request: Request) -> str:
    """Say hello."""
    return "hello"


@app.get("/slow/{milliseconds:int}")
async def slow(request: Request, milliseconds: int) -> str:
    """Respond after a while."""
    await asyncio.sleep(milliseconds / 1000)
    return "slept"


@app.get("/run")
def run(request: Request) -> str:
    """Count the calls."""
    counts["run"] += 1
    return "run"


@app.get("/work")
async def work(request: Request) -> str:
    """Wait for a release or the client's end; count starts and which of them came."""
    counts["started"] += 1
    end = asyncio.ensure_future(request.disconnected())
    let_go = asyncio.ensure_future(released.wait())
    await asyncio.wait({end, let_go}, return_when=asyncio.FIRST_COMPLETED)
    counts["disconnected" if end.done() else "finished"] += 1
    end.cancel()
    let_go.cancel()
    return "done"


@app.get("/hold")
async def hold(request: Request) -> str:
    """Wait for a release, whatever the client does."""
    counts["started"] += 1
    await released.wait()
    counts["finished"] += 1
    return "held"


@app.get("/release")
def release(request: Request) -> str:
    """Let the work go on."""
    global released
    released.set()
    released = asyncio.Event()
    return "released"


@app.get("/counts")
def show(request: Request) -> dict[str, int]:
    """Report what was counted."""
    return dict(counts)


@app.get("/big/{size:int}")
def big(request: Request, size: int) -> bytes:
    """Respond with so many bytes."""
    return bytes(size)


@app.get("/stream/{parts:int}")
def stream(request: Request, parts: int) -> Iterator[bytes]:
    """Stream parts of 1000 bytes."""
    return (b"p" * 1000 for _ in range(parts))


@app.get("/stream-later/{parts:int}")
async def stream_later(request: Request, parts: int) -> Response:
    """Stream parts of 1000 bytes from an async iterator."""

    async def iterate() -> AsyncIterator[bytes]:
        for _ in range(parts):
            await asyncio.sleep(0)
            yield b"p" * 1000

    return Response(iterate())


@app.get("/cut")
def cut(request: Request) -> Iterator[bytes]:
    """Fail after a part."""
    yield b"half"
    raise ValueError("the other half")


@app.get("/cut-later")
async def cut_later(request: Request) -> Response:
    """Fail after a part, in a coroutine."""

    async def iterate() -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.sleep(0)
        raise ValueError("the other half")

    return Response(iterate())


@app.get("/raises")
def raises(request: Request) -> str:
    """Fail before the response."""
    raise ValueError("no response")


@app.get("/fields")
def fields(request: Request) -> dict[str, object]:
    """Report the request."""
    counts["fields"] += 1
    return {
        "fields": [list(each) for each in request.headers.items()],
        "scheme": request.scheme,
        "version": request.http_version,
        "host": request.host,
    }


@app.post("/echo")
async def echo(request: Request) -> bytes:
    """Respond with the content."""
    return await request.body()


@app.post("/parts")
async def count_parts(request: Request) -> str:
    """Read the content in parts; report their sum."""
    total = 0
    async for part in request.stream():
        counts["parts"] += 1
        total += len(part)
    return str(total)


@app.post("/unread")
async def unread(request: Request) -> str:
    """Wait for a release without reading the content, and read it then."""
    counts["started"] += 1
    await released.wait()
    return str(len(await request.body()))


@app.post("/early")
async def early(request: Request) -> str:
    """Respond without a look at the content."""
    return "early"
