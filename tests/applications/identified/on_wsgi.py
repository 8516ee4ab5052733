"""Says which id its environs have."""

import json
from collections.abc import Iterable
from typing import Any


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Respond with it."""
    path = environ["PATH_INFO"]
    if path == "/raise":
        raise RuntimeError("as expected")
    environ["wsgi.input"].read()
    found = environ.get("HTTP_X_REQUEST_ID")
    content = json.dumps({"id": found, "fields": [found] if found else []}).encode()
    headers = [("Content-Length", str(len(content)))] if path != "/streamed" else []
    headers += [("X-Request-Id", "own")] if path == "/own" else []
    start_response("200 OK", headers)
    return [content] if path != "/streamed" else iter([content[:1], content[1:]])
