"""Send a file; at /cut it is truncated."""

import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

FILE = tempfile.NamedTemporaryFile(prefix="trunc\nated-")
FILE.truncate(64 << 20)


def cut() -> bytes:
    """Leave less of the file than anybody can have been sent."""
    os.truncate(FILE.name, 1000)
    return FILE.name.encode()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve it to ASGI."""
    if scope["type"] == "lifespan":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/cut":
        await send({"type": "http.response.body", "body": cut()})
    else:
        await send({"type": "http.response.pathsend", "path": FILE.name})


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Serve it to WSGI."""
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/cut":
        return [cut()]
    return environ["wsgi.file_wrapper"](open(FILE.name, "rb"))  # type: ignore[no-any-return]
