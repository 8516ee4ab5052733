"""WebSockets as an RSGI application: /echo sends a message back, /broadcast to all connections."""

from granian.rsgi import WebsocketMessageType

TEXT = WebsocketMessageType.string
receivers = set()


async def app(scope, protocol):
    """Accept the two paths."""
    if scope.proto != "ws":
        protocol.response_empty(404, [])
    elif scope.path == "/echo":
        await echo(await protocol.accept())
    elif scope.path == "/broadcast":
        await broadcast(protocol)
    else:
        protocol.close(403)


async def echo(transport):
    """Send every message back."""
    while (message := await transport.receive()).kind != WebsocketMessageType.close:
        await respond(transport, message)


async def broadcast(protocol):
    """Send every message to all connections."""
    transport = await protocol.accept()
    receivers.add(transport)
    while (message := await transport.receive()).kind != WebsocketMessageType.close:
        for each in tuple(receivers):
            await respond(each, message)
    receivers.discard(transport)


def respond(transport, message):
    """Send the same content."""
    if message.kind == TEXT:
        return transport.send_str(message.data)
    return transport.send_bytes(message.data)
