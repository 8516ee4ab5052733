"""WebSockets from Sanic: /echo sends a message back, /broadcast to all connections."""

from sanic import Sanic

receivers = set()
app = Sanic("race", configure_logging=False)
app.config.ACCESS_LOG = False
app.config.WEBSOCKET_PING_INTERVAL = None


@app.websocket("/echo")
async def echo(request, socket):
    """Send every message back."""
    async for message in socket:
        await socket.send(message)


@app.websocket("/broadcast")
async def broadcast(request, socket):
    """Send every message to all connections."""
    receivers.add(socket)
    try:
        async for message in socket:
            for each in tuple(receivers):
                await each.send(message)
    finally:
        receivers.discard(socket)
