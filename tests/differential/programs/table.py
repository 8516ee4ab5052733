"""The table of programs, which the application serves and the tests ask for.

A program is the body of an ASGI application: it is called with scope, receive and send, and what it
returns is sent as JSON. What it returns must be the same each time: no clock, id or address.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Run = Callable[[Scope, Receive, Send], Awaitable[Any]]

SENT = object()
"""What a program returns that has sent its response by itself, or means not to."""


@dataclass(frozen=True)
class Program:
    """How a program is asked for what it observes."""

    run: Run
    together: int = 1
    """How many requests reach the server at the same time, numbered from 0 in the query."""
    rounds: int = 3
    """How often; all but the last on the same connections."""
    is_alone: bool = False
    """Whether its server serves nothing else, because it may not survive."""


PROGRAMS: dict[str, Program] = {}


def program(*, together: int = 1, rounds: int = 3, is_alone: bool = False) -> Callable[[Run], Run]:
    """Decorate a program."""

    def decorate(run: Run) -> Run:
        name = run.__name__  # type: ignore[attr-defined]
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(run, together, rounds, is_alone)
        return run

    return decorate


def number(scope: Scope) -> int:
    """Return which of the requests that were sent together this one is."""
    return int(parse_qs(scope["query_string"].decode())["number"][0])


async def respond(send: Send, content: bytes, status: int = 200) -> None:
    """Send a whole response."""
    fields = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


def shown(error: BaseException | None) -> Any:
    """Describe an exception by its type, its text and, for a group, its members."""
    if isinstance(error, BaseExceptionGroup):
        return [type(error).__name__, error.message, [shown(each) for each in error.exceptions]]
    return error if error is None else [type(error).__name__, str(error)]


async def outcome(awaitable: Awaitable[Any]) -> Any:
    """Await something; return what it gave, or what it raised."""
    try:
        return await awaitable
    except BaseException as error:
        return shown(error)
