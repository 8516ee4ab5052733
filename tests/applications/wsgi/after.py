"""A WSGI application that works on after its responses."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

WORK_S = 0.5
PATIENCE_S = 8
released = threading.Event()


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
    """Two blocks, whose `close` takes as long as the test wants."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield them."""
        yield b"first, "
        yield b"last"

    def close(self) -> None:
        """Wait until another request releases it, and fail."""
        released.wait(PATIENCE_S)
        raise RuntimeError("as the test wants it")


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the path says."""
    start_response(status="200 OK", headers=[], exc_info=None)
    match environ["PATH_INFO"]:
        case "/thread":
            threading.Thread(target=work).start()
        case "/slow-close":
            return SlowlyClosed()
        case "/slow":
            work()
        case "/close":
            return Blocks()
        case "/release":
            released.set()
    return [b"done"]
