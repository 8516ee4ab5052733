"""ASGI applications that wait, stream, read content, or do input and output of their own.

The variable RACE_COMPANION_PORT names the port of `echo_selectors.py`, which `ask` and `gather`
use, and RACE_FILE the file of `file` and `large`. Lifespan, and other paths than the target, are
those of `on_asgi.py`.
"""

import asyncio
import os

from content import CONTENT, TARGET
from echo_selectors import RESPONSE
from on_asgi import FOUND_BODY, FOUND_START
from on_asgi import app as plain

QUESTION = b"GET / HTTP/1.1\r\n\r\n"
PARALLEL = 10
PARTS = 16
PART = CONTENT[: len(CONTENT) // PARTS]
STREAM_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/octet-stream")],
}
LARGE_PART = b"x" * 65536
FILE = os.environ.get("RACE_FILE", "")
FILE_BYTES = os.path.getsize(FILE) if FILE else 0
FILE_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [*STREAM_START["headers"], (b"content-length", b"%d" % FILE_BYTES)],
}

idle = []


def is_others(scope):
    """Return whether `on_asgi.py` has to respond."""
    return scope["type"] == "lifespan" or scope["path"] != TARGET


async def respond(send):
    """Send the content."""
    await send(FOUND_START)
    await send(FOUND_BODY)


async def question():
    """Ask the companion on a connection that is kept open."""
    if idle:
        reader, writer = idle.pop()
    else:
        port = int(os.environ["RACE_COMPANION_PORT"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(QUESTION)
    response = await reader.readexactly(len(RESPONSE))
    idle.append((reader, writer))
    return response


async def turn(scope, receive, send):
    """Respond after a turn of the loop."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await asyncio.sleep(0)
    await respond(send)


async def sleep(scope, receive, send):
    """Respond after 10 ms."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await asyncio.sleep(0.01)
    await respond(send)


async def ask(scope, receive, send):
    """Respond when one question has a response."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await question()
    await respond(send)


async def gather(scope, receive, send):
    """Respond when ten questions, asked at the same time, have responses."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await asyncio.gather(*(question() for _ in range(PARALLEL)))
    await respond(send)


async def thread(scope, receive, send):
    """Respond when another thread has called a function."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await asyncio.to_thread(len, QUESTION)
    await respond(send)


async def stream(scope, receive, send):
    """Send the content, of equal bytes, in 16 parts without a length."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await send(STREAM_START)
    for _ in range(PARTS):
        await send({"type": "http.response.body", "body": PART, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def upload(scope, receive, send):
    """Read the content of the request message by message, and respond with its size."""
    if is_others(scope):
        return await plain(scope, receive, send)
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    content = b"%d" % size
    fields = [(b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": content})


async def file(scope, receive, send):
    """Have the server send the file (the extension http.response.pathsend)."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await send(FILE_START)
    await send({"type": "http.response.pathsend", "path": FILE})


async def large(scope, receive, send):
    """Send as many bytes as the file has, in parts of 64 KiB without a length."""
    if is_others(scope):
        return await plain(scope, receive, send)
    await send(STREAM_START)
    left = FILE_BYTES
    while left > 0:
        part = LARGE_PART if left >= len(LARGE_PART) else LARGE_PART[:left]
        left -= len(part)
        await send({"type": "http.response.body", "body": part, "more_body": left > 0})
