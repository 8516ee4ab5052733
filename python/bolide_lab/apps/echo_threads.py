"""The same response to every request, from a pool of ten threads: `echo_threads.py HOST PORT`."""

import socket
import sys
from concurrent.futures import ThreadPoolExecutor

from echo_selectors import serve_ready

THREADS = 10


def serve(stream):
    """Serve one connection until it closes."""
    waiting = {}
    with stream:
        while serve_ready(stream, waiting):
            pass


def main(host, port):
    """Serve forever."""
    listener = socket.create_server((host, port), backlog=4096)
    with ThreadPoolExecutor(THREADS) as pool:
        while True:
            stream, _ = listener.accept()
            stream.setsockopt(socket.SOL_TCP, socket.TCP_NODELAY, True)
            pool.submit(serve, stream)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
