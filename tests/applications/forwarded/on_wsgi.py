"""Says what its environs have of the client."""

import json
from collections.abc import Iterable
from typing import Any

KEYS = ("HTTPS", "SERVER_NAME", "SERVER_PORT", "REMOTE_PORT")


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Respond with it."""
    port = environ.get("REMOTE_PORT")
    address = environ["REMOTE_ADDR"]
    seen = {
        "client": [address, int(port or 0)] if address else None,
        "scheme": environ["wsgi.url_scheme"],
        "host": environ["HTTP_HOST"],
        "root_path": environ["SCRIPT_NAME"],
        "path": environ["SCRIPT_NAME"] + environ["PATH_INFO"],
        "fields": sorted(key for key in environ if key.startswith("HTTP_")),
        **{key: environ.get(key) for key in KEYS},
    }
    content = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Length", str(len(content)))])
    return [content]
