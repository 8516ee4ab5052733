"""Responds with the fields about traces."""

import json
from collections.abc import Iterable
from typing import Any

NAMES = ("traceparent", "tracestate", "baggage")


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Respond with them."""
    keys = [(name, f"HTTP_{name.upper()}") for name in NAMES]
    lines = [(name, environ[key]) for name, key in keys if key in environ]
    content = json.dumps(lines).encode()
    start_response("200 OK", [("Content-Length", str(len(content)))])
    return [content]
