"""The WSGI application: content and responses of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the path says."""
    _, kind, *rest = environ["PATH_INFO"].split("/")
    content = bytes(int(rest[0])) if rest else b"hello"
    if kind == "echo":
        content = environ["wsgi.input"].read()
    start_response("200 OK", [])
    return iter([b"first", content]) if kind == "part" else [content]
