"""Requests that wait for the same task or future, and those that look at their own task."""

from __future__ import annotations

import asyncio
import io
import json
import time
from typing import Any

from ask import Asked

asked = Asked()
app, asgi = asked.app, asked.asgi
shared: dict[str, asyncio.Future[str]] = {}
calls: dict[str, int] = {"begun": 0, "before_callback": -1}
BLOCK_S = 0.003


def one(name: str, make: Any) -> asyncio.Future[str]:
    """Return what all wait for until it is done."""
    if name not in shared or shared[name].done():
        shared[name] = make()
    return shared[name]


async def work() -> str:
    """Take a moment."""
    await asyncio.sleep(0.01)
    return "shared"


def promise() -> asyncio.Future[str]:
    """Return a future that is done in a moment."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    loop.call_later(0.01, future.set_result, "shared")
    return future


@asked
async def task() -> str:
    """Wait for a task that several wait for."""
    return await one("task", lambda: asyncio.create_task(work()))


@asked
async def future() -> str:
    """Wait for a future that several wait for."""
    return await one("future", promise)


@asked
async def shielded() -> str:
    """Wait for a task after a shield."""
    return await asyncio.shield(one("shielded", lambda: asyncio.create_task(work())))


@asked
async def gathered() -> str:
    """Wait for a task among others."""
    return (await asyncio.gather(one("gathered", lambda: asyncio.create_task(work()))))[0]


@asked
async def cancels() -> str:
    """Cancel the own task before it waits for what others wait for: that is cancelled with it."""
    waited_for = one("cancels", lambda: asyncio.create_task(asyncio.sleep(3600, "late")))
    current = asyncio.current_task()
    assert current is not None
    current.cancel("enough")
    try:
        await waited_for
    except asyncio.CancelledError:
        current.uncancel()
    # Cancelling a task takes it a turn of the loop.
    await asyncio.wait([waited_for])
    return str(waited_for.cancelled())


@asked
async def blocking_flag() -> str:
    """Return whether a future that a request has begun to wait for looks as if it were yielded."""
    return str(one("future", promise)._asyncio_future_blocking)


@asked
async def own_task() -> str:
    """Report what a debugger sees of the task, before and after a suspension."""
    task = asyncio.current_task()
    assert task is not None
    seen = []
    for _ in range(2):
        stack = io.StringIO()
        task.print_stack(file=stack)
        coroutine: Any = task.get_coro()
        seen.append(
            {
                "registered": task in asyncio.all_tasks(),
                "frames": [frame.f_code.co_name for frame in task.get_stack()],
                "printed": stack.getvalue(),
                "running": coroutine.cr_running,
                "code": coroutine.cr_code.co_name,
                "name": coroutine.__qualname__,
                "repr": repr(task),
            }
        )
        await asyncio.sleep(0)
    return json.dumps(seen)


@asked
async def waits() -> str:
    """Wait until somebody has looked."""
    shared["waits"] = asyncio.get_running_loop().create_future()
    return await shared["waits"]


@asked
async def look() -> str:
    """Report what a debugger sees of the task that waits, and let it go."""
    waits = shared.get("waits")
    if waits is None:
        return ""
    tasks: set[Any] = asyncio.all_tasks()
    task = next((task for task in tasks if task._fut_waiter is waits), None)
    if task is None:
        return ""
    coroutine: Any = task.get_coro()
    chain = []
    while hasattr(coroutine, "cr_await"):
        chain.append(coroutine.__qualname__)
        coroutine = coroutine.cr_await
    text = json.dumps({"chain": chain, "repr": repr(task)})
    waits.set_result("seen")
    return text


@asked
async def task_name() -> str:
    """Return the name of the task, without a suspension."""
    task = asyncio.current_task()
    assert task is not None
    return task.get_name()


@asked
async def slow_first_step() -> str:
    """Take long without a suspension."""
    time.sleep(0.15)
    return "slow"


@asked
async def set_debug() -> str:
    """Turn the debug mode on."""
    asyncio.get_running_loop().set_debug(True)
    return "on"


@asked
async def queue_callback() -> str:
    """Queue a callback that notes how many calls have begun meanwhile."""
    calls.update(begun=0, before_callback=-1)
    asyncio.get_running_loop().call_soon(lambda: calls.update(before_callback=calls["begun"]))
    return "queued"


@asked
async def blocks() -> str:
    """Keep the thread for a moment."""
    calls["begun"] += 1
    time.sleep(BLOCK_S)
    return "ok"


@asked
async def blocks_long() -> str:
    """Keep the thread while requests arrive."""
    time.sleep(0.1)
    return "ok"


@asked
async def before_callback() -> str:
    """Report how many calls began before the callback ran."""
    return str(calls["before_callback"])
