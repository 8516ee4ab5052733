"""An application whose responses show what a test wants to know of the server."""

import asyncio
import os
import sys
import time

from bolide import App, Request

app = App()


@app.get("/")
def hello(request: Request) -> str:
    """Say hello."""
    return "hello"


@app.get("/pid")
def pid(request: Request) -> dict[str, int]:
    """Report which worker responds."""
    return {"pid": os.getpid()}


@app.get("/loop")
async def loop(request: Request) -> dict[str, str]:
    """Report which event loop runs."""
    return {"loop": type(asyncio.get_running_loop()).__module__}


@app.get("/slow/{milliseconds:int}")
async def slow(request: Request, milliseconds: int) -> str:
    """Say on standard error that the request is in flight, then take a while."""
    print("in flight", file=sys.stderr, flush=True)
    await asyncio.sleep(milliseconds / 1000)
    return "done"


@app.get("/block/{milliseconds:int}")
def block(request: Request, milliseconds: int) -> str:
    """Hold up the whole worker."""
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(milliseconds / 1000)
    return "done"


@app.get("/compute/{milliseconds:int}")
def compute(request: Request, milliseconds: int) -> str:
    """Hold up the whole worker, and the interpreter."""
    print("blocking", file=sys.stderr, flush=True)
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        pass
    return "done"


@app.on_startup
async def startup() -> None:
    """Say that startup ran."""
    print("startup ran", file=sys.stderr, flush=True)


@app.on_shutdown
async def shutdown() -> None:
    """Say that shutdown ran."""
    print("shutdown ran", file=sys.stderr, flush=True)
