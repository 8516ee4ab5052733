"""The native applications: of plain functions, and of coroutines that suspend first."""

import asyncio
from collections.abc import Iterator

from acts import Act, act, failure

from bolide import App, Request, Response

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]

app = App()
later = App()


@app.route("/{path:path}", METHODS)
def respond(request: Request) -> Response:
    """Respond at once."""
    return response(asked(request, request.body()))


@later.route("/{path:path}", METHODS)
async def respond_later(request: Request) -> Response:
    """Respond after a suspension."""
    await asyncio.sleep(0)
    return response(asked(request, await request.body()))


def asked(request: Request, content: bytes) -> Act:
    """Return the response to the request."""
    host = ",".join(request.headers.getall("host"))
    return act(request.method, request.path, request.query_string, content, host)


def response(act: Act) -> Response:
    """Make the response."""
    if act.fails == "before":
        raise failure()
    content = parts(act) if act.parts else act.content or None
    return Response(content, act.status, headers=act.fields)


def parts(act: Act) -> Iterator[bytes]:
    """Yield the parts."""
    yield from act.parts
    if act.fails == "inside":
        raise failure()
