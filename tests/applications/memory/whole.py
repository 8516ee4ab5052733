"""An application that reads whole contents in coroutines."""

from __future__ import annotations

import asyncio

from bolide import App, Request, Response

app = App()
kept: asyncio.Queue[int] = asyncio.Queue()
released = asyncio.Event()


@app.get("/")
async def root(request: Request) -> str:
    """Respond at once."""
    return "root"


@app.post("/")
async def echo(request: Request) -> Response:
    """Respond with the content, as JSON."""
    return Response(json={"content": await request.text()})


@app.post("/kept")
async def keep(request: Request) -> bytes:
    """Read the content, and respond with it when another request says so."""
    content = await request.body()
    kept.put_nowait(len(content))
    await released.wait()
    return content


@app.get("/kept")
async def wait(request: Request) -> str:
    """Respond with the length of a content when it is kept."""
    return str(await kept.get())


@app.post("/release")
async def release(request: Request) -> str:
    """Let its handler respond."""
    released.set()
    return "released"
