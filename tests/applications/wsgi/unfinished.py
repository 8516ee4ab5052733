"""Serve a WSGI application inside a loop, and end the program while a call waits: WHERE.

The call goes on when the interpreter is being finalized, where it asks for it in vain.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import bolide
from bolide.server import logs

WHERE = sys.argv[1]
SOURCE, TARGET = os.pipe()


class Last:
    """Frees the call when the modules are taken down, and lets its thread run."""

    def __del__(
        self,
        write: Callable[[int, bytes], int] = os.write,
        pause: Callable[[float], None] = time.sleep,
        fd: int = TARGET,
    ) -> None:
        write(fd, b"x")
        pause(0.2)
        write(2, b"finalized\n")


def wait() -> None:
    """End the loop, and wait without the interpreter for what comes after."""
    loop.call_soon_threadsafe(serving.cancel)
    if WHERE == "computing":
        while True:
            pass
    os.read(SOURCE, 1)


class Blocks:
    """An iterable that waits at one of its ends."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield a block, and wait for the next."""
        yield b"block"
        if WHERE == "block":
            wait()

    def close(self) -> None:
        """Wait."""
        if WHERE == "close":
            wait()


class Reader:
    """Something with `read` that is no file."""

    def read(self, size: int) -> bytes:
        """Wait."""
        wait()
        return b""


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Wait where it was said."""
    start_response("200 OK", [])
    if WHERE in ("call", "computing"):
        wait()
    if WHERE == "file":
        return environ["wsgi.file_wrapper"](Reader())  # type: ignore[no-any-return]
    return Blocks()


async def main() -> None:
    """Serve until a call ends it."""
    global loop, serving
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(bolide.serve(app, port=0, threads=2, graceful_timeout_ms=1))
    await asyncio.wait([serving])


sys.last_words = Last()  # type: ignore[attr-defined]
logs.configure("info")
asyncio.run(main())
