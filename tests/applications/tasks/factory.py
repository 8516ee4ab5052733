"""Tasks made by a factory of the application's, and handles queued between a task's and ours."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ask import Asked

asked = Asked()
app, asgi = asked.app, asked.asgi
made: list[str] = []
queued: list[Any] = []
ran: list[Any] = []


def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task and note it."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    task.mark = f"made {len(made)}"  # type: ignore[attr-defined]  # CPython 3.13.0 takes a name away
    made.append(coro.__qualname__)
    return task


@asked
async def set_factory() -> str:
    """Set the factory in a handler."""
    made.clear()
    asyncio.get_running_loop().set_task_factory(factory)
    return "set"


@asked
async def unset_factory() -> str:
    """Make tasks in the usual way again."""
    asyncio.get_running_loop().set_task_factory(None)
    return "unset"


@asked
async def name() -> str:
    """Return the factory's mark on the task, or the task's name, without a suspension."""
    task = asyncio.current_task()
    assert task is not None
    return getattr(task, "mark", task.get_name())


@asked
async def show_made() -> str:
    """Report what the factory has made."""
    return json.dumps(made)


@asked
async def fail_to_make() -> str:
    """Set a factory that raises."""

    def broken(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        loop.set_task_factory(None)
        raise ValueError("no tasks today")

    asyncio.get_running_loop().set_task_factory(broken)
    return "set"


@asked
async def queue_beside() -> str:
    """From now on have something queued after each step, as a thread or a finalizer may do."""
    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon

    def call_soon_and_more(callback: Any, *arguments: Any, context: Any = None) -> asyncio.Handle:
        handle = call_soon(callback, *arguments, context=context)
        queued.append(None)
        call_soon(ran.append, None)
        return handle

    loop.call_soon = call_soon_and_more  # type: ignore[method-assign]
    return "queueing"


@asked
async def gives_way() -> str:
    """Suspend twice."""
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return "ok"


@asked
async def show_queued() -> str:
    """Return whether all that was queued was run, but for what this request itself has queued."""
    await asyncio.sleep(0.001)
    return json.dumps([len(queued) > 0, len(queued) - len(ran)])
