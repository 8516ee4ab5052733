"""Keeps what requests were called with, and looks at it, changes it or uses it in later ones."""

import asyncio
import copy
import json
import sys
import weakref
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from kinds import START, Kinds, Receive, Send, respond, word

kinds = Kinds()
app = kinds.app
KEPT: list[tuple[Any, Any]] = []
"""What was kept, and how it looked."""
LAST: dict[bytes, bytes] = {}
"""The fields of the last request to `again`."""


@kinds
async def keep(scope: Any, receive: Receive, send: Send) -> None:
    """Keep a part of what the request has."""
    if word(scope, 3) == "later":
        await asyncio.sleep(0)
    things: dict[str, Any] = {
        "scope": scope,
        "headers": scope["headers"],
        "asgi": scope["asgi"],
        "state": scope["state"],
        "items": scope.items(),
        "iterator": iter(scope["headers"]),
        "receive": receive,
        "send": send,
        "awaitable": receive(),
        "weakly": weakref.ref(send),
        "argument": argument(scope),
    }
    what = word(scope, 2)
    body = {"type": "http.response.body", "body": b"of another"}
    kept = send(body) if what == "sending" else things[what]
    KEPT.append((kept, shown(kept)))
    await respond(send, b"kept")


def argument(scope: Any) -> Iterator[Any]:
    """Hold it in a frame that runs later: CPython 3.14 does not count each reference of a stack."""
    yield scope


@kinds
async def again(scope: Any, receive: Receive, send: Send) -> None:
    """Report which fields have the very pair of the last request: they are remembered."""
    same = [name.decode() for name, value in scope["headers"] if LAST.get(name) is value]
    LAST.clear()
    LAST.update(scope["headers"])
    await respond(send, json.dumps(sorted(same)).encode())


class Own:
    """Something of the application's."""


@kinds
async def leave(scope: Any, receive: Receive, send: Send) -> None:
    """Leave something in the scope, and say when it is let go."""
    if word(scope, 3) == "later":
        await asyncio.sleep(0)
    scope[word(scope, 2)] = own = Own()
    said = f"let go: {scope['path']}"
    weakref.finalize(own, print, said, file=sys.stderr, flush=True)
    await respond(send, b"left")


def shown(kept: Any) -> Any:
    """Show what must stay as it is."""
    if isinstance(kept, dict | list):
        return copy.deepcopy(kept)
    return list(kept) if isinstance(kept, type({}.items())) else None


@kinds
async def compare(scope: Any, receive: Receive, send: Send) -> None:
    """Return whether all is as it was, and no part of this request's; forget it."""
    mine = (scope, scope["headers"], scope["asgi"], scope["state"], receive, send)
    same = []
    for kept, before in KEPT:
        is_as_it_was = before is None or shown(kept) == before
        inner = kept() if isinstance(kept, weakref.ref) else kept
        inner = next(inner) if isinstance(inner, GeneratorType) else inner
        same.append(is_as_it_was and not any(inner is each for each in mine))
    KEPT.clear()
    await respond(send, json.dumps(same).encode())


@kinds
async def change(scope: Any, receive: Receive, send: Send) -> None:
    """Change what was kept; return whether it is seen here; forget it."""
    for kept, _ in KEPT:
        if isinstance(kept, list):
            kept.append((b"changed", b"changed"))
        else:
            kept["changed"] = "changed"
    KEPT.clear()
    await respond(send, json.dumps("changed" in repr(scope)).encode())


@kinds
async def use(scope: Any, receive: Receive, send: Send) -> None:
    """Use what was kept inside this request's response; report the result; forget it."""
    found = []
    await send(START)
    for kept, _ in KEPT:
        try:
            if hasattr(kept, "__await__"):
                found.append((await kept)["type"])
            elif kept.__name__ == "receive":
                found.append((await kept())["type"])
            else:
                await kept({"type": "http.response.body", "body": b"of another"})
        except (RuntimeError, OSError) as error:
            found.append(type(error).__name__)
    KEPT.clear()
    await send({"type": "http.response.body", "body": json.dumps(found).encode()})
