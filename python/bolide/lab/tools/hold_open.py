"""Opens connections, makes one request on each, and keeps them: `hold_open.py HOST PORT ...`.

It prints how many had the expected response, and were still open at the end. Only the standard
library is used.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import sys
import time

WAIT_S = 5.0
HELD_S = 0.5
"""How long all are open: the race reads the server's memory ten times a second."""


def main(host: str, port: str, target: str, number: str, content: str) -> int:
    """Open them all; the content is hexadecimal."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    expected = bytes.fromhex(content)
    request = f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    poll = select.poll()
    held: list[socket.socket] = []
    since = time.monotonic()
    for _ in range(int(number)):
        stream = socket.create_connection((host, int(port)), timeout=WAIT_S)
        stream.sendall(request)
        received = b""
        while not (b"\r\n\r\n" in received and received.endswith(expected)):
            piece = stream.recv(65536)
            if not piece:
                print("a connection was closed before its response", file=sys.stderr)
                return 1
            received += piece
        if not received.startswith(b"HTTP/1.1 200 "):
            print(f"responded {received[:40]!r}", file=sys.stderr)
            return 1
        held.append(stream)
        poll.register(stream, select.POLLIN)
    seconds = time.monotonic() - since
    time.sleep(HELD_S)
    print(json.dumps({"ok": len(held) - len(poll.poll(0)), "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
