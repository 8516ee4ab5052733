"""The WSGI application of the soak."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl

from counted import counted, parts, reply

Start = Callable[..., object]


def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Respond to what the path asks for."""
    query, path = dict(parse_qsl(environ["QUERY_STRING"])), environ["PATH_INFO"]
    if path == "/stream":
        start("200 OK", [])
        return stream(query)
    with counted(query):
        if path == "/raise":
            raise ValueError("of the soak")
        if path == "/later":
            time.sleep(0.002)
        content = reply(query)
        if path in ("/upload", "/whole"):
            content = read(query, environ["wsgi.input"])
        start("200 OK", [("Content-Length", str(len(content)))])
        return [content]


def read(query: dict[str, str], source: Any) -> bytes:
    size = 0
    while part := source.read(65536):
        size += len(part)
    return reply(query, size)


def stream(query: dict[str, str]) -> Iterator[bytes]:
    with counted(query):
        yield from parts(query)
