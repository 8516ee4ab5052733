"""Echo WebSocket messages over a pair of sockets in one thread, for callgrind to count.

    python benches/messages.py INTERFACE MESSAGES ROUNDS

INTERFACE is native or asgi. Each round is one send of so many messages of 64 characters, and one
read of their echoes. The client's own share is one turn of the event loop for each round.
"""

import asyncio
import socket
import sys
from typing import Any

from bolide import App, WebSocket, _core
from bolide.interface.asgi import AsgiApplication

LENGTH = 64
HANDSHAKE = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
FRAME = bytes([0x81, 0x80 | LENGTH]) + b"\0\0\0\0" + b"x" * LENGTH

native = App()


@native.websocket("/")
async def echo(ws: WebSocket) -> None:
    """Send back what comes."""
    async for message in ws:
        await ws.send(message)


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Send back what comes."""
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": event["text"]})


def serve(interface: str, messages: int, rounds: int) -> None:
    """Run the rounds."""
    core = native.core() if interface == "native" else AsgiApplication(asgi).core()
    server = _core.Server(core, {})
    loop = asyncio.SelectorEventLoop(_core.selector(server))
    server.attach(loop, own_selector=True)
    client, connection = socket.socketpair()
    server.adopt(connection.fileno())
    batch = FRAME * messages
    round_bytes = messages * (LENGTH + 2)
    left = rounds
    received = 0
    is_open = False

    def next_round() -> None:
        nonlocal left, received
        received = 0
        if left == 0:
            return loop.stop()
        left -= 1
        client.sendall(batch)

    def receive() -> None:
        nonlocal received, is_open
        data = client.recv(1 << 20)
        if not is_open:
            assert data.startswith(b"HTTP/1.1 101 ") and data.endswith(b"\r\n\r\n"), data
            is_open = True
            return next_round()
        received += len(data)
        if received == round_bytes:
            next_round()

    loop.add_reader(client, receive)
    loop.call_soon(client.sendall, HANDSHAKE.encode())
    loop.run_forever()
    server.stop()
    loop.close()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
