"""One ASGI application in each form in which a framework may give it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Generator
from typing import Any


async def respond(scope: Any, receive: Any, send: Any) -> None:
    """Say where the request was found."""
    assert scope["type"] == "http"
    body = f"{scope['root_path']} {scope['path']} {scope['raw_path'].decode()}".encode()
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": body})


def plain(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
    """Return a coroutine without being a coroutine function."""
    return respond(scope, receive, send)


class Endpoint:
    """Await an instance for each request."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self._arguments = scope, receive, send

    def __await__(self) -> Generator[Any, None, None]:
        return respond(*self._arguments).__await__()


def gives_an_object(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
    """Return an awaitable that is not a coroutine."""
    return Endpoint(scope, receive, send)


class Application:
    """Be called for each request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(scope, receive, send)


async def with_prefix(prefix: str, scope: Any, receive: Any, send: Any) -> None:
    """Take one argument more than an application."""
    await respond(scope, receive, send)


async def hidden(*arguments: Any) -> None:
    """Hide the parameters."""
    await respond(*arguments)


def create_app(name: str = "made") -> Application:
    """Make an application."""
    return Application()


instance = Application()
method = Application().__call__
partial = functools.partial(with_prefix, "/")


def undecided(*arguments: Any) -> Awaitable[None]:
    """Hide the parameters, and not be a coroutine function."""
    return respond(*arguments)
