"""A WSGI application that streams numbered blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

BLOCK_BYTES = 65_536


def block(number: int) -> bytes:
    """Return a block that no other one equals."""
    return number.to_bytes(4, "big") * (BLOCK_BYTES // 4)


def blocks(count: int) -> Iterator[bytes]:
    """Yield so many blocks."""
    for number in range(count):
        yield block(number)


def held_blocks(count: int, path: str) -> Iterator[bytes]:
    """Yield so many blocks, then work on until a named pipe is opened for writing."""
    yield from blocks(count)
    with open(path, "rb"):
        pass


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Stream so many blocks: chunked, with a length or `held` at the end; or respond at once."""
    _, kind, *rest = environ["PATH_INFO"].split("/")
    if not rest:
        start_response("200 OK", [])
        return [b"hello"]
    count = int(rest[0])
    fields = [("Content-Length", str(count * BLOCK_BYTES))] if kind == "known" else []
    start_response("200 OK", fields)
    return held_blocks(count, environ["QUERY_STRING"]) if kind == "held" else blocks(count)
