"""The WSGI application of the fault matrix: the query names the request."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs

from noted import fail, hang, note, noted, reply

Start = Callable[..., object]


def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Respond to what the path asks for."""
    query = {name: value[0] for name, value in parse_qs(environ["QUERY_STRING"]).items()}
    _, name, *rest = environ["PATH_INFO"].split("/")
    if name == "raise":
        return raises(start, query, *rest)
    if name == "stream":
        return stream(start, query)
    with noted(query["id"]):
        content = ordinary(name, rest, query, environ)
        start("200 OK", [("Content-Length", str(len(content)))])
        return [content]


def ordinary(name: str, rest: list[str], query: dict[str, str], environ: dict[str, Any]) -> bytes:
    if name == "work":
        time.sleep(int(query["ms"]) / 1000)
    elif name == "hang":
        hang(*rest)
    elif name == "upload":
        digest, size = hashlib.sha256(), 0
        while part := environ["wsgi.input"].read(65536):
            digest.update(part)
            size += len(part)
        return f"{query['id']} {size} {digest.hexdigest()}".encode()
    return reply(query["id"], int(query.get("size", "0")))


def stream(start: Start, query: dict[str, str]) -> Iterator[bytes]:
    start("200 OK", [])
    left = int(query["size"])
    part = reply(query["id"], min(left, 65536))
    note("begun", query["id"])
    while left > 0:
        yield part[:left]
        left -= len(part)
        time.sleep(int(query.get("ms", "0")) / 1000)
    note("ended", query["id"])


def raises(start: Start, query: dict[str, str], kind: str, when: str) -> Iterable[bytes]:
    note("begun", query["id"])
    if when == "before":
        fail(kind)
    start("200 OK", [])
    if when == "start":
        fail(kind)
    return Failing(kind, when)


class Failing:
    """A response that raises within its content or at its end."""

    def __init__(self, kind: str, when: str) -> None:
        self.kind, self.when = kind, when
        self.parts = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.parts += 1
        if self.parts == 2 and self.when == "middle":
            fail(self.kind)
        if self.parts > 2:
            raise StopIteration
        return b"x" * 100

    def close(self) -> None:
        """Raise at the end."""
        if self.when == "close":
            fail(self.kind)
