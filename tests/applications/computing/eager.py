"""The application of `asgi.py` in tasks that take their first step when they are created."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from asgi import app as served


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Set the factory, and serve."""
    if scope["type"] == "lifespan":
        asyncio.get_running_loop().set_task_factory(create_eager)
    await served(scope, receive, send)


def create_eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
    """Create a task as `asyncio.eager_task_factory` does, with whatever the loop passes."""
    # uvloop 0.23.0 passes it on CPython 3.13, and the factory of 3.13.0 does not accept it.
    options.pop("eager_start", None)
    return FACTORY(loop, coroutine, **options)


def step_first(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Create a task as `asyncio.eager_task_factory` does, before CPython 3.12."""
    try:
        rest = Rest(coroutine, coroutine.send(None))
    except StopIteration as end:
        return asyncio.Task(result_of(end.value), loop=loop, **options)
    return asyncio.Task(result_of_rest(rest), loop=loop, **options)


async def result_of(value: Any) -> Any:
    """Return a value."""
    return value


async def result_of_rest(rest: "Rest") -> Any:
    """Await what is left."""
    return await rest


class Rest:
    """A coroutine after its first step."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self.coroutine = coroutine
        self.yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        yielded = self.yielded
        while True:
            if yielded is not None:
                yielded._asyncio_future_blocking = True
            sent = yield yielded
            try:
                yielded = self.coroutine.send(sent)
            except StopIteration as end:
                return end.value


FACTORY: Any = getattr(asyncio, "eager_task_factory", step_first)
