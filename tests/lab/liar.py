"""A server that lies in a given way: `liar.py WAY HOST PORT`.

Started by the race's tests, as a contestant is; standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

CONTENT = os.environ.get("RACE_CONTENT", "OK").encode()
END = b"\r\n\r\n"
ENDING = ("closes-early", "counts-below-zero")
PATIENT_REQUESTS = 40
"""Requests served before it dies or hangs: more than the proof sends, fewer than a load."""
FRAMING = {
    "counts-below-zero": b"Content-Length: -2",
    "counts-twice": b"Content-Length: 2\r\nContent-Length: 3",
    "promises-much": b"Content-Length: 1000000000000",
    "counts-chunks-wrongly": b"Transfer-Encoding: chunked",
    "never-ends": b"Connection: close",
}
"""How the end of some responses is marked."""
responded = 0
connected = 0


def contents(way: str) -> bytes:
    """Return the content for the path that it knows."""
    if way == "changes-under-load" and connected > 3:
        return CONTENT + b", at last"
    if way == "wrong-body" or (way == "lies-under-load" and connected > 3):
        return CONTENT[:-1] + b"?"
    return CONTENT


def response(head: bytes, way: str) -> bytes:
    """Return the response to one head."""
    content, status = contents(way), b"200 OK"
    if head.split()[1] != b"/" and way != "knows-every-path":
        content, status = b"Not Found", b"404 Not Found"
    if way == "error-page":
        content, status = b"Internal Server Error", b"500 Internal Server Error"
    if way == "counts-status-without-end":
        status = b"2" * 5000 + b" OK"
    if way == "differs":
        content = b"%02d" % (responded % 100)
    length = len(content) + (10 if way == "closes-early" else 0)
    fields = FRAMING.get(way, b"Content-Length: %d" % length)
    fields += b"\r\nContent-Type: text/plain\r\n"
    if way == "counts-chunks-wrongly":
        content = b"+2\r\n" + content + b"\r\n0\r\n\r\n"
    if b"connection: close" in head.lower():
        fields += b"Connection: close\r\n"
    if way == "keeps-alive-by-name" and b" HTTP/1.0" in head:
        fields += b"Connection: Keep-Alive\r\n"
    extra = b"more" if way == "more-than-said" else b""
    return b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n" + content + extra


class Connected:
    """Counts the connections that are open."""

    def __enter__(self) -> None:
        global connected
        connected += 1

    def __exit__(self, *_: object) -> None:
        global connected
        connected -= 1


CONNECTED = Connected()


def serve(stream: socket.socket, way: str) -> None:
    """Serve one connection."""
    global responded
    received = b""
    with stream, CONNECTED:
        while piece := stream.recv(65536):
            *heads, received = (received + piece).split(END)
            if way == "guesses" and not heads:
                heads, received = [b"GET / HTTP/1.1\r\nConnection: close"], b""
            if way == "first-only":
                del heads[1:]
            for head in heads:
                responded += 1
                if responded > PATIENT_REQUESTS and way == "dies":
                    os._exit(7)
                if responded > PATIENT_REQUESTS and way == "hangs":
                    time.sleep(3600)
                is_last = b"connection: close" in head.lower() or way in ENDING
                if is_last and way == "dies-of-close":
                    os._exit(9)
                send(stream, response(head, way), way)
                if is_last and way != "keeps-open":
                    return


def send(stream: socket.socket, octets: bytes, way: str) -> None:
    """Send a response: at once, byte by byte with never a silence, or without an end."""
    while way == "drips" and octets:
        stream.sendall(octets[:1])
        octets = octets[1:]
        time.sleep(0.1)
    stream.sendall(octets)
    while way == "never-ends":
        stream.sendall(bytes(65536))


def accepting(listener: socket.socket, way: str) -> None:
    """Serve every connection in a thread of its own."""
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(stream, way), daemon=True).start()


def main(way: str, host: str, port: str) -> None:
    """Serve, or do not."""
    if way == "refuses-to-start":
        sys.exit(f"{os.getcwd()} is not mine")
    if way == "never-listens":
        time.sleep(3600)
    if way == "escapes" and os.fork():  # a daemon of the old kind, deaf to TERM
        os._exit(0)
    if way == "escapes":
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if way == "takes-all-processors":
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    listener = socket.create_server((host, int(port)), backlog=1024)
    accepting(listener, way)


if __name__ == "__main__":
    main(*sys.argv[1:])
