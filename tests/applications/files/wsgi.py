"""A WSGI application that sends the file which the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Send the file, or respond at once."""
    start_response("200 OK", [])
    if environ["PATH_INFO"] != "/file":
        return [b"hello"]
    wrapper: Iterable[bytes] = environ["wsgi.file_wrapper"](open(os.environ["SENT_FILE"], "rb"))
    return wrapper
