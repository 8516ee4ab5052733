"""A WSGI application that forks a process which comes back from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from native import fork


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Fork in the call, or while the response is iterated over."""
    _, when, *how = environ["PATH_INFO"].split("/")
    if when == "later":
        return later(how[0], start_response)
    content = fork(how[0]) if how else "hello"
    start_response("200 OK", [])
    return [content.encode()]


def later(how: str, start_response: Any) -> Iterable[bytes]:
    """Fork in the iterator."""
    content = fork(how)
    start_response("200 OK", [])
    yield content.encode()
