"""What runs beside and after requests: tasks, contexts, and what asyncio and anyio promise."""

import asyncio
import contextvars
import importlib
import json
import traceback
import types
from typing import Any

import anyio
from kinds import Kinds, Receive, Send, part, respond, word

kinds = Kinds()
mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="unset")


@kinds
async def after(scope: Any, receive: Receive, send: Send) -> None:
    """Work on after a response that was sent at once, later or in parts, until it is let."""
    way = word(scope, 2)
    if way == "later":
        await asyncio.sleep(0)
    if way == "parts":
        await send({"type": "http.response.start", "status": 200})
        await part(send, b"do")
        await part(send, b"ne", more=False)
    else:
        await respond(send, b"done", status=204 if way == "empty" else 200)
    await kinds.held()
    kinds.count("ended")


@kinds
async def context(scope: Any, receive: Receive, send: Send) -> None:
    """Report what the variable was, and set it, at once or after a suspension."""
    before = mark.get()
    mark.set("in the first step")
    if word(scope, 2) == "later":
        await asyncio.sleep(0)
        before += mark.get().replace("in the first step", "")
        mark.set("later")
    await respond(send, before.encode())


@kinds
async def task(scope: Any, receive: Receive, send: Send) -> None:
    """Return whether each of two suspensions ends in the same task, and no other request's."""
    current = asyncio.current_task()
    assert current is not None
    kept = [hasattr(current, "mark")]
    for _ in range(2):
        await asyncio.sleep(0)
        kept.append(asyncio.current_task() is not current)
    await respond(send, json.dumps(kept).encode())


@kinds
async def named(scope: Any, receive: Receive, send: Send) -> None:
    """Return whether the task has a name that `raising` gives."""
    current = asyncio.current_task()
    assert current is not None
    await respond(send, str(current.get_name() == "left").encode())


@kinds
async def probes(scope: Any, receive: Receive, send: Send) -> None:
    """Run a check of one of the applications that are made of them."""
    _, _, file, stage, name = scope["path"].split("/")
    if stage == "later":
        await asyncio.sleep(0.001)
    try:
        await getattr(importlib.import_module(file), name)()
    except Exception:
        return await respond(send, traceback.format_exc().encode(), status=500)
    await respond(send, b"ok")


@kinds
async def state(scope: Any, receive: Receive, send: Send) -> None:
    """Show the state."""
    await respond(send, repr(scope.get("state")).encode())


@kinds
async def beside(scope: Any, receive: Receive, send: Send) -> None:
    """Stream in a group's task while another waits for the client's end, as Starlette does."""
    if word(scope, 3) == "later":
        await asyncio.sleep(0)

    async def then_cancel(function: Any, *arguments: Any) -> None:
        await function(*arguments)
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(then_cancel, parts, send, word(scope, 2))
            await then_cancel(disconnected, receive)
    finally:
        kinds.count("groups")


async def parts(send: Send, way: str) -> None:
    """Stream some parts, or parts without end."""
    await send({"type": "http.response.start", "status": 200})
    count = 0
    while way == "endless" or count < 3:
        await part(send, b"part")
        await anyio.sleep(0)
        count += 1
    await part(send, b"", more=False)


async def disconnected(receive: Receive) -> None:
    """Wait for the client's end."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Awaitable:
    """An awaitable that is no coroutine."""

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.coroutine = kinds.app(scope, receive, send)

    def __await__(self) -> Any:
        return self.coroutine.__await__()


@types.coroutine
def generator(scope: Any, receive: Receive, send: Send) -> Any:
    """Be a coroutine of the old kind."""
    return (yield from kinds.app(scope, receive, send).__await__())


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Serve with the functions."""
    await kinds.app(scope, receive, send)


def plain(scope: Any, receive: Receive, send: Send) -> Any:
    """Be a plain function that gives another application's coroutine."""
    return kinds.app(scope, receive, send)


def raising(scope: Any, receive: Receive, send: Send) -> Any:
    """Be a plain function that names its task and raises, or gives a coroutine."""
    current = asyncio.current_task()
    if scope["type"] == "lifespan" or word(scope, 1) != "raise":
        return kinds.app(scope, receive, send)
    if current is not None:
        current.set_name("left")
    raise KeyError


def awaitable(scope: Any, receive: Receive, send: Send) -> Any:
    """Return an awaitable."""
    return Awaitable(scope, receive, send)


def future(scope: Any, receive: Receive, send: Send) -> Any:
    """Return a task."""
    return asyncio.ensure_future(kinds.app(scope, receive, send))


class Instance:
    """An application whose `__call__` is a coroutine function."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve."""
        await kinds.app(scope, receive, send)


instance = Instance()
