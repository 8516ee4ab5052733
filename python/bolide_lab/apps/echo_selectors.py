"""The same response to every request, on an event loop of selectors: `echo_selectors.py HOST PORT`.

Like the document's echo server, it only looks for the end of a request's head.
"""

import selectors
import socket
import sys

from content import CONTENT

HEAD = b"HTTP/1.1 200 OK\r\nServer: py\r\nContent-Length: %d\r\n" % len(CONTENT)
RESPONSE = HEAD + b"\r\n" + CONTENT
CLOSING = HEAD + b"Connection: close\r\n\r\n" + CONTENT
KEPT = HEAD + b"Connection: keep-alive\r\n\r\n" + CONTENT
END = b"\r\n\r\n"


def respond(head):
    """Return the response to a head, and whether the connection persists."""
    lowered = head.lower()
    if b" http/1.0" in lowered:
        is_kept = b"keep-alive" in lowered
        return (KEPT if is_kept else CLOSING), is_kept
    is_closed = b"connection: close" in lowered
    return (CLOSING if is_closed else RESPONSE), not is_closed


def serve_ready(stream, waiting):
    """Serve what has arrived; return whether the connection persists."""
    try:
        received = stream.recv(65536)
        if not received:
            return False
        *heads, rest = (waiting.pop(stream, b"") + received).split(END)
        if rest:
            waiting[stream] = rest
        for head in heads:
            response, is_kept = respond(head)
            stream.sendall(response)
            if not is_kept:
                return False
    except OSError:
        return False
    return True


def main(host, port):
    """Serve forever."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server((host, port), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    waiting = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                try:
                    stream, _ = listener.accept()
                except BlockingIOError:
                    continue
                stream.setsockopt(socket.SOL_TCP, socket.TCP_NODELAY, True)
                selector.register(stream, selectors.EVENT_READ)
            elif not serve_ready(key.fileobj, waiting):
                waiting.pop(key.fileobj, None)
                selector.unregister(key.fileobj)
                key.fileobj.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
