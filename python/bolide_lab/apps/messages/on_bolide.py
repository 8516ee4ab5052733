"""WebSockets from Bolide's own framework: /echo sends a message back, /broadcast to all."""

from bolide import App

app = App()


@app.websocket("/echo")
async def echo(socket):
    """Send every message back."""
    async for message in socket:
        await socket.send(message)


@app.websocket("/broadcast")
async def broadcast(socket):
    """Send every message to all connections."""
    socket.subscribe("all")
    async for message in socket:
        app.publish("all", message)
