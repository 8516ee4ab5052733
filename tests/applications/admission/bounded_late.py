"""A native application that adds routes with bounds of their own while it is served."""

import asyncio

from bolide import App

app = App()


def count(request):
    """Return how much arrived."""
    return str(len(request.body()))


async def late(request):
    """Never respond."""
    await asyncio.Event().wait()


def add():
    """Add routes, the only ones with bounds."""
    app.add_route("/small", count, ["POST"], body_bytes_max=10)
    app.add_route("/late", late, handler_timeout_ms=50)


@app.get("/add")
async def add_soon(request):
    """Add them when this has responded."""
    asyncio.get_running_loop().call_soon(add)
    return ""
