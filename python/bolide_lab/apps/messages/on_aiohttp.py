"""WebSockets from aiohttp: /echo sends a message back, /broadcast to all.

`on_aiohttp.py HOST PORT`.
"""

import asyncio
import sys

import uvloop
from aiohttp import WSMsgType, web

receivers = set()


async def connected(request):
    """Return a WebSocket that the client has agreed to."""
    socket = web.WebSocketResponse(compress=True, autoping=True)
    await socket.prepare(request)
    return socket


async def echo(request):
    """Send every message back."""
    socket = await connected(request)
    async for message in socket:
        await respond(socket, message)
    return socket


async def broadcast(request):
    """Send every message to all connections."""
    socket = await connected(request)
    receivers.add(socket)
    async for message in socket:
        for each in tuple(receivers):
            await respond(each, message)
    receivers.discard(socket)
    return socket


def respond(socket, message):
    """Send the same content."""
    if message.type == WSMsgType.TEXT:
        return socket.send_str(message.data)
    return socket.send_bytes(message.data)


async def serve(host, port):
    """Serve forever."""
    application = web.Application()
    application.router.add_get("/echo", echo)
    application.router.add_get("/broadcast", broadcast)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, int(port), backlog=4096).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(*sys.argv[1:]))
