"""Serve requests over a pair of sockets in one thread, for `callgrind.py` to count instructions.

    python benches/calls.py APPLICATION TARGET ROUNDS [metrics]

APPLICATION is one of the race's own (`on_bolide.py`): app, coroutine or parameters. Each round is
one send of 240 pipelined requests for TARGET, and one read of responses. The client's own share is
one turn of the event loop for each round. With `metrics` the server counts, as with `--management`.
"""

import asyncio
import importlib
import socket
import sys

from bolide import _core
from bolide.lab.folders import APPS

PIPELINED = 240


def serve(name: str, target: str, rounds: int, *has_metrics: str) -> None:
    """Run the rounds."""
    sys.path.append(str(APPS))
    app = getattr(importlib.import_module("on_bolide"), name)
    server = _core.Server(app.core(), {})
    if has_metrics:
        server.measure(_core.Counts())
    loop = asyncio.SelectorEventLoop(_core.selector(server))
    server.attach(loop, own_selector=True)
    client, connection = socket.socketpair()
    server.adopt(connection.fileno())
    batch = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode() * PIPELINED
    left = rounds
    received = bytearray()

    def next_round() -> None:
        nonlocal left
        received.clear()
        if left == 0:
            return loop.stop()
        left -= 1
        client.sendall(batch)

    def receive() -> None:
        received.extend(client.recv(1 << 20))
        # A slow turn ends by the clock, before all of a round have a response.
        if received.count(b"HTTP/1.1 200 ") == PIPELINED:
            next_round()

    loop.add_reader(client, receive)
    loop.call_soon(next_round)
    loop.run_forever()
    server.stop()
    loop.close()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
