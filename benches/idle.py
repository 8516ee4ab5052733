"""Measure what an idle WebSocket takes of the server's memory.

    python benches/idle.py INTERFACE [CONNECTIONS]

INTERFACE is native or asgi. Each client opens a WebSocket without compression over a pair of
sockets, has one message of 64 characters echoed, and is silent from then on; its end goes to
another process. What 1,000 WebSockets before them have taken is not counted.
"""

import asyncio
import gc
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any

from messages import FRAME, HANDSHAKE, asgi, native

from bolide import _core
from bolide.interface.asgi import AsgiApplication

WARM_UP = 1000


def resident_bytes() -> int:
    """Give the memory of this process that is its own."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def keeper() -> socket.socket:
    """Start a process that keeps the clients' ends, and give the socket that takes them."""
    ours, its = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        while socket.recv_fds(its, 1, 1)[0]:
            its.send(b"k")
        os._exit(0)
    its.close()
    return ours


def exchange(client: int, data: bytes, end: bytes, turn: Any) -> None:
    """Send something, and let the server run until the client has a response that ends so."""
    os.write(client, data)
    received = b""
    os.set_blocking(client, False)
    while not received.endswith(end):
        turn()
        try:
            received += os.read(client, 4096)
        except BlockingIOError:
            continue


def measure(interface: str, count: int) -> float:
    """Give the bytes for each idle WebSocket."""
    kept = keeper()
    core = native.core() if interface == "native" else AsgiApplication(asgi).core()
    server = _core.Server(core, {})
    loop = asyncio.SelectorEventLoop(_core.selector(server))
    server.attach(loop, own_selector=True)

    def turn() -> None:
        loop.call_soon(loop.stop)
        loop.run_forever()

    def open_some(count: int) -> None:
        for _ in range(count):
            ours, its = socket.socketpair()
            client = ours.detach()
            server.adopt(its.fileno())
            its.close()
            exchange(client, HANDSHAKE.encode(), b"\r\n\r\n", turn)
            exchange(client, FRAME, b"x" * 64, turn)
            socket.send_fds(kept, [b"k"], [client])
            kept.recv(1)
            os.close(client)

    open_some(WARM_UP)
    before = resident_bytes()
    open_some(count)
    return (resident_bytes() - before) / count


if __name__ == "__main__":
    COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
    print(f"{sys.argv[1]}: {measure(sys.argv[1], COUNT):,.0f} bytes for each idle WebSocket")
    os._exit(0)
