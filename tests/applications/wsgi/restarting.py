"""Calls of `start_response` when the response has begun."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Start = Callable[..., Callable[[bytes], Any]]


class Writing(list[tuple[str, str]]):
    """Header fields that begin another response when they are read."""

    def __init__(self, start_response: Start) -> None:
        self.start_response = start_response

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.start_response("200 OK", [("X-Inner", "1")])(b"inner")
        return super().__iter__()


def streamed(start_response: Start) -> Iterator[bytes]:
    """Fail after the first block."""
    start_response("200 OK", [])
    yield b"begun"
    try:
        raise ValueError("the first response failed")
    except ValueError:
        start_response("500 Failed", [], sys.exc_info())
    yield b"never"


def app(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Serve /streamed and /within."""
    if environ["PATH_INFO"] == "/streamed":
        return streamed(start_response)
    try:
        start_response("201 Created", Writing(start_response))
    except RuntimeError as error:
        return [f" {error}".encode()]
    return [b" and outer"]
