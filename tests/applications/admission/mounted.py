"""A native application with an ASGI application mounted on it."""

import asyncio
import sys

from bolide import App

app = App()


@app.get("/hold")
async def hold(request):
    """Wait for the client's end."""
    print("holding", file=sys.stderr, flush=True)
    await request.disconnected()


async def mounted(scope, receive, send):
    """Respond after a suspension."""
    await asyncio.sleep(0)
    headers = [(b"content-length", b"7")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"mounted"})


app.mount("/mounted", mounted)
