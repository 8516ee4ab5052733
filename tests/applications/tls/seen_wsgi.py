"""A WSGI application that says what it sees of a TLS session."""

import json
import os
from collections.abc import Callable
from typing import Any


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    seen: dict[str, Any] = {
        key: value
        for key, value in environ.items()
        if key.startswith("SSL_") or key in ("HTTPS", "wsgi.url_scheme")
    }
    seen["pid"] = os.getpid()
    content = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Length", str(len(content)))])
    return [content]
