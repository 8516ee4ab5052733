"""A WSGI application that raises a CancelledError, which no server has caused."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any

KINDS = {"asyncio": asyncio.CancelledError, "futures": concurrent.futures.CancelledError}


class Blocks:
    """Blocks that raise when they are iterated over: at once, at the first, or at the second."""

    def __init__(self, where: str, error: BaseException) -> None:
        self._where, self._error = where, error
        self._given = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._where == "iter":
            raise self._error
        return self

    def __next__(self) -> bytes:
        self._given += 1
        if self._where == "next" or self._given == 2:
            raise self._error
        return b"block"


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Raise what the path says, where it says."""
    if environ["PATH_INFO"].count("/") < 2:
        start_response("200 OK", [])
        return [b"fine"]
    _, kind, where = environ["PATH_INFO"].split("/")
    error = KINDS[kind]("on purpose")
    if where == "view":
        raise error
    start_response("200 OK", [])
    return Blocks(where, error)
