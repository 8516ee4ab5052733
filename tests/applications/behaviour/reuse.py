"""Reports how many request objects exist while one request waits and another was served."""

import asyncio
import gc

from bolide import App, Request

app = App()
served = asyncio.Event()


@app.get("/count")
async def count(request: Request) -> str:
    """Wait for the other one; count."""
    await served.wait()
    return str(sum(isinstance(each, Request) for each in gc.get_objects()))


@app.get("/serve")
async def serve(request: Request) -> str:
    """Be the other one."""
    served.set()
    return "served"
