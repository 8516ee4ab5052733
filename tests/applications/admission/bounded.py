"""A native application whose routes have bounds of their own."""

import asyncio

from bolide import App

app = App()


@app.post("/small", body_bytes_max=10)
def small(request):
    """Return how much arrived."""
    return str(len(request.body()))


@app.post("/large/{number:int}", body_bytes_max=100_000)
async def large(request, number):
    """Return how much arrived."""
    return str(len(await request.body()))


@app.post("/usual")
def usual(request):
    """Return how much arrived."""
    return str(len(request.body()))


@app.get("/late", handler_timeout_ms=50)
async def late(request):
    """Never respond."""
    await asyncio.Event().wait()
