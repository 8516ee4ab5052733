"""Makes an ASGI application of coroutine functions: the first part of the path names one.

It has a lifespan, and responds to `/seen` with what its functions noted in `seen`, to `/release`
by setting the event that some of them wait for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Kind = Callable[[Any, Receive, Send], Awaitable[None]]

START = {"type": "http.response.start", "status": 200}


class Kinds:
    """An application whose functions register with it as a decorator."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.released = asyncio.Event()
        self._kinds: dict[str, Kind] = {"seen": self._seen, "release": self._release}

    def __call__(self, kind: Kind) -> Kind:
        """Decorate a function."""
        self._kinds[kind.__name__] = kind  # type: ignore[attr-defined]
        return kind

    async def app(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve lifespan and http."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        else:
            await self._kinds[word(scope, 1)](scope, receive, send)

    def count(self, name: str) -> None:
        """Note that something happened once more."""
        self.seen[name] = self.seen.get(name, 0) + 1

    async def held(self) -> None:
        """Wait for the next `/release`, and let tests see that somebody waits."""
        self.count("held")
        await self.released.wait()

    async def _seen(self, scope: Any, receive: Receive, send: Send) -> None:
        await respond(send, json.dumps(self.seen).encode())

    async def _release(self, scope: Any, receive: Receive, send: Send) -> None:
        self.released.set()
        self.released = asyncio.Event()
        await respond(send, b"released")


async def lifespan(receive: Receive, send: Send) -> None:
    """Agree to start and to end."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def respond(
    send: Send, body: bytes, *headers: tuple[bytes, bytes], status: int = 200
) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def part(send: Send, body: bytes, more: bool = True) -> None:
    """Send a part of a response's content."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


def word(scope: Any, number: int) -> str:
    """Return a part of the path, empty if there is none."""
    words = scope["path"].split("/")
    return words[number] if number < len(words) else ""


async def turns(count: int = 20) -> None:
    """Let the event loop go round, without taking time."""
    for _ in range(count):
        await asyncio.sleep(0)
