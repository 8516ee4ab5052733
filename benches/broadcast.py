"""What a broadcast costs at least: nothing but the kernel's sends, on one processor.

    python benches/broadcast.py [CONNECTIONS]

One process sends a frame of 66 bytes to each of its TCP connections (1,000) again and again, and
another one on the next processor reads them. No server that sends each subscriber its own frame is
faster per second of its processor time.
"""

import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress

FRAME = b"\x81\x40" + bytes(64)
ROUNDS = 7
ROUND_S = 2.0


def read(address: tuple[str, int], connections: int) -> None:
    """Read all that comes, until the process is ended."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    poller = select.epoll()
    clients = {}
    for _ in range(connections):
        client = socket.create_connection(address)
        clients[client.fileno()] = client
        poller.register(client, select.EPOLLIN)
    while True:
        for descriptor, _ in poller.poll():
            clients[descriptor].recv(65_536)


def send(peers: list[socket.socket]) -> tuple[int, float, float]:
    """Send for ROUND_S; return how many frames, and the seconds of user and of kernel time."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    end = time.monotonic() + ROUND_S
    sent = 0
    while time.monotonic() < end:
        for peer in peers:
            with suppress(BlockingIOError):
                peer.send(FRAME)
                sent += 1
    after = resource.getrusage(resource.RUSAGE_SELF)
    return sent, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main(connections: int) -> None:
    """Print a line for each round."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * connections + 64,) * 2)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    reader = os.fork()
    if reader == 0:
        read(listener.getsockname(), connections)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    peers = []
    try:
        for _ in range(connections):
            peer, _ = listener.accept()
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peers.append(peer)
        for _ in range(ROUNDS):
            sent, user_s, kernel_s = send(peers)
            print(
                f"{kernel_s / sent * 1e6:.2f} us of the kernel for each frame:"
                f" at most {sent / kernel_s:,.0f} per second of a processor"
                f" ({user_s / sent * 1e6:.2f} us of Python)"
            )
    finally:
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
