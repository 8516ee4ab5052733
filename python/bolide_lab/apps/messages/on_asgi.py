"""WebSockets as an ASGI application: /echo sends a message back, /broadcast to all connections."""

receivers = set()


async def app(scope, receive, send):
    """Accept the two paths, and support the lifespan protocol."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await receive()
    if scope["path"] == "/echo":
        await echo(receive, send)
    elif scope["path"] == "/broadcast":
        await broadcast(receive, send)
    else:
        await send({"type": "websocket.close"})


async def echo(receive, send):
    """Send every message back."""
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send(response_of(message))


async def broadcast(receive, send):
    """Send every message to all connections."""
    receivers.add(send)
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        response = response_of(message)
        for each in tuple(receivers):
            await each(response)
    receivers.discard(send)


def response_of(message):
    """Return an event that sends the same content."""
    text = message.get("text")
    if text is not None:
        return {"type": "websocket.send", "text": text}
    return {"type": "websocket.send", "bytes": message["bytes"]}
