"""Read a content, through each interface, and respond with its size."""

from typing import Any

from bolide import App, Request

native = App()


@native.post("/")
async def upload(request: Request) -> str:
    """Respond with the size of the content, of which all is held."""
    return str(len(await request.body()))


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the size of the content, of which every part is kept."""
    if scope["type"] == "lifespan":
        raise NotImplementedError
    parts = []
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
    size = b"%d" % sum(map(len, parts))
    headers = [(b"content-length", b"%d" % len(size))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": size})


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Respond with the size of the content, of which every part is kept, with something small."""
    parts: list[Any] = []
    size = 0
    while part := environ["wsgi.input"].read(65536):
        size += len(part)
        parts += [part, [{}]]
    start_response("200 OK", [("Content-Length", str(len(str(size))))])
    return [b"%d" % size]
