"""Says what its requests and WebSockets have of the client."""

import json

import bolide

app = bolide.App()


def seen(request: bolide.Request | bolide.WebSocket) -> str:
    """Return it as JSON."""
    return json.dumps(
        {
            "client": request.client,
            "scheme": request.scheme,
            "host": request.host,
            "root_path": request.root_path,
            "path": request.root_path + request.path,
            "url": request.url,
            "fields": request.field_lines(),
        }
    )


@app.get("/{rest:path}")
def respond(request: bolide.Request) -> str:
    """Respond with it."""
    return seen(request)


@app.websocket("/{rest:path}")
async def send(websocket: bolide.WebSocket) -> None:
    """Send it as the first message."""
    await websocket.send(seen(websocket))


@app.post("/content")
async def read(request: bolide.Request) -> str:
    """Respond with it, after the content."""
    await request.body()
    return seen(request)
