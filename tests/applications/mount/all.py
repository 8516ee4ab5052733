"""A native application with ASGI and WSGI applications below prefixes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator

from context import context, note, seen

from asgi import named
from bolide import App, Request
from wsgi import GATE
from wsgi import app as wsgi_app

app = App()
app.mount("/api", named("api"))
app.mount("/old", wsgi_app)
app.mount("/api/v2", named("v2"))
app.mount("/caf\u00e9", wsgi_app, interface="wsgi")
app.mount("/caf\u00e9/api", named("caf\u00e9"))


@app.on_startup
def startup() -> None:
    print("native startup", file=sys.stderr, flush=True)


@app.on_shutdown
def shutdown() -> None:
    print("native shutdown", file=sys.stderr, flush=True)


@app.get("/now")
def now(request: Request) -> str:
    return context()


@app.get("/soon")
async def soon(request: Request) -> str:
    return context()


@app.get("/later")
async def later(request: Request) -> str:
    first = context()
    await asyncio.sleep(0)
    return first + context()


@app.get("/parts")
def parts(request: Request) -> Iterator[str]:
    for _ in range(3):
        yield context()


@app.get("/endless")
async def endless(request: Request) -> AsyncIterator[str]:
    try:
        while True:
            yield "begun" * 4096
    finally:
        note("native")


@app.post("/count")
async def count(request: Request) -> str:
    return str(len(await request.body()))


@app.get("/api/status")
def status(request: Request) -> str:
    return "native"


@app.get("/raises")
def raises(request: Request) -> str:
    context()
    raise RuntimeError("on purpose")


@app.get("/seen")
def read_seen(request: Request) -> dict[str, object]:
    return seen


@app.get("/release")
def release(request: Request) -> str:
    GATE.set()
    return "released"
