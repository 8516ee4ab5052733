"""A server that sends back what it is sent, for applications that ask another one: `echo.py`.

It prints the port that it listens on, and ends with its standard input.
"""

import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from contestants import pinned
from environments import UnavailableError


@contextmanager
def echoing(core: int) -> Iterator[int]:
    """Run the server on a core until the block ends, and give its port.

    Raises: UnavailableError.
    """
    with subprocess.Popen(
        pinned(core, [sys.executable, __file__]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            port = process.stdout.readline()
            if not port:
                raise UnavailableError("the echo server did not start")
            yield int(port)
        finally:
            process.stdin.close()


def main() -> int:
    """Serve."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return 0
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            try:
                content = peer.recv(65536)
                peer.sendall(content)
            except OSError:
                content = b""
            if not content:
                selector.unregister(peer)
                peer.close()


if __name__ == "__main__":
    sys.exit(main())
