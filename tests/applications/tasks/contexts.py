"""Requests that set a context variable, and look at what is left of others."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ask import Asked

from bolide import Request, WebSocket

asked = Asked()
app, asgi = asked.app, asked.asgi
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE", default="unset")
left: dict[str, weakref.ref[Value]] = {}
ends: list[str] = []
logged: list[str] = []


class Value:
    """Something that can be referenced weakly."""


class Look:
    """What a task waits for that wants to know the task's own context."""

    _asyncio_future_blocking = False

    def __init__(self) -> None:
        self.context: contextvars.Context | None = None

    def __await__(self) -> Iterator[Look]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, as a future does."""
        return asyncio.get_running_loop()

    def add_done_callback(
        self, callback: Callable[[Any], None], *, context: contextvars.Context
    ) -> None:
        """Resume the task in the next turn."""
        self.context = context
        asyncio.get_running_loop().call_soon(callback, self, context=context)

    def result(self) -> None:
        """Return nothing."""


@asked
async def sets() -> str:
    """Set the variable, without a suspension."""
    value = Value()
    left["value"] = weakref.ref(value)
    VARIABLE.set(value)
    return "set"


@asked
async def is_kept() -> str:
    """Report whether the value of the last request that set one is still referenced."""
    return str(left["value"]() is not None)


@asked
async def plain() -> str:
    """Set nothing."""
    return "plain"


@asked
async def waits() -> str:
    """Report what the contexts of the handler and of its task have, before and after."""
    look = Look()
    token = VARIABLE.set("own")
    await look
    assert look.context is not None
    seen = [VARIABLE.get(), str(look.context.get(VARIABLE))]
    child = asyncio.create_task(_set_in_child())
    VARIABLE.reset(token)
    seen.append(await child)
    return " ".join([*seen, VARIABLE.get()])


async def _set_in_child() -> str:
    before = str(VARIABLE.get())
    VARIABLE.set("of a child")
    return before


@app.websocket("/counts")
async def counts(ws: WebSocket) -> None:
    """Count the messages in the variable, which children see and cannot change; reset it."""
    token = VARIABLE.set(0)
    async for message in ws:
        VARIABLE.set(VARIABLE.get() + 1)
        if message == "reset":
            VARIABLE.reset(token)
        await ws.send(f"{await asyncio.create_task(_set_in_child())} {VARIABLE.get()}")


class Parts:
    """Parts of a response, which reset the variable at the end."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._token = VARIABLE.set("own")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._left:
            VARIABLE.reset(self._token)
            raise StopIteration
        self._left -= 1
        return str(VARIABLE.get())

    def close(self) -> None:
        """Note whether the token is of this context."""
        try:
            VARIABLE.reset(self._token)
        except (RuntimeError, ValueError) as error:
            ends.append(str(error))
        else:
            ends.append("reset")


@app.get("/parts/{when}/{count:int}")
async def parts(request: Request, when: str, count: int) -> Parts:
    """Stream parts in the context of the handler."""
    if when == "later":
        await asyncio.sleep(0)
    if when == "departed":
        ends.append("waits")
        await request.disconnected()
    return Parts(count)


@app.get("/ends")
async def show_ends(request: Request) -> list[str]:
    """Report how parts were closed."""
    return ends


class Noting(logging.Handler):
    """Notes the variable where something is logged, as handlers with an id of the request do."""

    def emit(self, record: logging.LogRecord) -> None:
        """Note it."""
        logged.append(f"{record.getMessage().split(':')[0]} {VARIABLE.get()}")


async def raising(scope: Any, receive: Any, send: Any) -> None:
    """Set the variable to the path, and raise after a suspension."""
    if scope["type"] == "lifespan":
        logging.getLogger("bolide.error").addHandler(Noting())
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    path = scope["path"]
    VARIABLE.set(path)
    if path.startswith("/raise"):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
        await asyncio.sleep(0)
        raise LookupError(path)
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": json.dumps(logged).encode()})
