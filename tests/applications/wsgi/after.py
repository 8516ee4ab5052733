"""A WSGI application that works on after its responses."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

WORK_S = 0.5
PATIENCE_S = 8
closes, released = threading.Event(), threading.Event()


def work() -> None:
    """Take some time, and say so."""
    print("it works", file=sys.stderr, flush=True)
    time.sleep(WORK_S)
    print("the work is done", file=sys.stderr, flush=True)


class SlowlyClosed:
    """A block, and a `close` that takes some time."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield it."""
        yield b"block"

    def close(self) -> None:
        """Work on."""
        work()


class Blocks:
    """Blocks, whose `close` takes as long as the test wants."""

    def __init__(self, *blocks: bytes) -> None:
        self.blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        """Yield them, and work on, so that all of them are sent before the end is known."""
        yield from self.blocks
        time.sleep(0.02)

    def close(self) -> None:
        """Wait until another request releases it, and fail."""
        closes.set()
        released.wait(PATIENCE_S)
        closes.clear()
        raise RuntimeError("as the test wants it")


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the path says."""
    path = environ["PATH_INFO"]
    fields = {"/close-one": [("Content-Length", "5")], "/close-two": [("Content-Length", "11")]}
    start_response(status="200 OK", headers=fields.get(path, []), exc_info=None)
    if path.startswith("/close"):
        released.clear()
    match path:
        case "/thread":
            threading.Thread(target=work).start()
        case "/slow-close":
            return SlowlyClosed()
        case "/slow":
            work()
        case "/close" | "/close-two":
            return Blocks(b"first, ", b"last")
        case "/close-one":
            return Blocks(b"first")
        case "/close-nothing":
            return Blocks()
        case "/release":
            if not closes.wait(PATIENCE_S):
                return [b"nothing is being closed"]
            released.set()
    return [b"done"]
