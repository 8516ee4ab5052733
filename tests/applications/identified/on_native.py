"""Says which id its requests and WebSockets have."""

import asyncio
import json
import time

import bolide

app = bolide.App()


def seen(request: bolide.Request | bolide.WebSocket) -> str:
    """Return it as JSON."""
    return json.dumps({"id": request.id, "fields": request.headers.getall("x-request-id")})


@app.get("/")
def respond(request: bolide.Request) -> str:
    """Respond with it at once."""
    return seen(request)


@app.get("/later")
async def respond_later(request: bolide.Request) -> str:
    """Respond with it after the first step."""
    await asyncio.sleep(0)
    return seen(request)


@app.get("/streamed")
async def stream(request: bolide.Request) -> bolide.Response:
    """Respond with it in parts."""

    async def parts():  # type: ignore[no-untyped-def]
        yield seen(request)

    return bolide.Response(parts())


@app.get("/own")
def respond_with_own(request: bolide.Request) -> bolide.Response:
    """Respond with another id in the response."""
    return bolide.Response(seen(request), headers={"x-request-id": "own"})


@app.get("/slow")
def respond_slowly(request: bolide.Request) -> str:
    """Respond after some time."""
    time.sleep(0.3)
    return seen(request)


@app.get("/raise")
def fail(request: bolide.Request) -> str:
    """Raise."""
    raise RuntimeError("as expected")


@app.post("/")
async def read(request: bolide.Request) -> str:
    """Respond with it after the content."""
    await request.body()
    return seen(request)


@app.post("/whole")
def take(request: bolide.Request) -> str:
    """Respond with it, when the content has arrived."""
    return seen(request)


@app.websocket("/")
async def send(websocket: bolide.WebSocket) -> None:
    """Send it as the first message."""
    await websocket.send(seen(websocket))
