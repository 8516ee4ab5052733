"""The content as an ASGI application."""

from content import CONTENT, NOT_FOUND, TARGET

FOUND_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/plain"),
        (b"content-length", b"%d" % len(CONTENT)),
    ],
}
FOUND_BODY = {"type": "http.response.body", "body": CONTENT}
MISSING_START = {
    "type": "http.response.start",
    "status": 404,
    "headers": [
        (b"content-type", b"text/plain"),
        (b"content-length", b"%d" % len(NOT_FOUND)),
    ],
}
MISSING_BODY = {"type": "http.response.body", "body": NOT_FOUND}


async def app(scope, receive, send):
    """Send the content, and support the lifespan protocol."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["path"] == TARGET:
        await send(FOUND_START)
        await send(FOUND_BODY)
    else:
        await send(MISSING_START)
        await send(MISSING_BODY)
