"""Responds at once, in parts or slowly, with fields of its own."""

import time
from collections.abc import Iterable
from typing import Any

FIELDS = [("X-Cache", "hit"), ("x-cache", "a b"), ("Content-Type", "text/x")]


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Respond."""
    path = environ["PATH_INFO"]
    received = len(environ["wsgi.input"].read())
    if path == "/slow":
        time.sleep(0.1)
    start_response("200 OK", FIELDS if path != "/plain" else [])
    content = str(received).encode()
    return [content] if path != "/streamed" else stream(content)


def stream(content: bytes) -> Iterable[bytes]:
    """Yield the content, and something later."""
    yield content
    time.sleep(0.1)
    yield b"b"
