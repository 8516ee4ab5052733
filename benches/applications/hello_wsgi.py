"""A raw WSGI application that responds with 13 bytes."""

from typing import Any

FIELDS = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", "13")]


def hello(environ: Any, start_response: Any) -> list[bytes]:
    """Respond with 13 bytes."""
    start_response("200 OK", FIELDS)
    return [b"Hello, World!"]
