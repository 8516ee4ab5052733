"""anyio and sniffio, on which Starlette and others depend."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import sniffio

from differential.programs.table import (
    SENT,
    Receive,
    Scope,
    Send,
    number,
    outcome,
    program,
    respond,
    shown,
)


@program()
async def library_is_detected(scope: Scope, receive: Receive, send: Send) -> Any:
    seen = [sniffio.current_async_library()]
    await asyncio.sleep(0)
    seen.append(sniffio.current_async_library())
    return [*seen, await asyncio.to_thread(library_of_a_thread)]


def library_of_a_thread() -> Any:
    """Ask where no loop runs."""
    try:
        return sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError as error:
        return type(error).__name__


@program()
async def anyio_task_group(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    async def child(name: str, task_status: anyio.abc.TaskStatus[str] = anyio.TASK_STATUS_IGNORED):  # type: ignore[no-untyped-def]
        task_status.started(name)
        try:
            await anyio.sleep(10)
        finally:
            log.append(name)

    async with anyio.create_task_group() as group:
        log.append(await group.start(child, "started"))
        group.start_soon(child, "soon")
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    return [log[0], sorted(log[1:])]


@program()
async def anyio_group_fails(scope: Scope, receive: Receive, send: Send) -> Any:
    async def fail() -> None:
        raise ValueError("child")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await anyio.sleep(10)
    except BaseExceptionGroup as error:
        return shown(error)


@program()
async def anyio_cancel_scopes(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[Any] = []
    for delay_s in (0.001, 0, -1):
        with anyio.move_on_after(delay_s) as moved:
            await anyio.sleep(10)
        seen.append([moved.cancelled_caught, moved.cancel_called])
    try:
        with anyio.fail_after(0):
            await anyio.sleep(10)
    except TimeoutError as error:
        seen.append(shown(error))
    with anyio.CancelScope() as scope_of_ours:
        scope_of_ours.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0)
            seen.append("shielded")
        await anyio.sleep(0)
        seen.append("not reached")
    task = asyncio.current_task()
    assert task is not None
    return [seen, scope_of_ours.cancelled_caught, task.cancelling()]


@program()
async def anyio_scope_without_a_suspension(scope: Scope, receive: Receive, send: Send) -> Any:
    with anyio.CancelScope() as entered:
        entered.cancel()
    with anyio.move_on_after(0) as moved:
        pass
    seen = [entered.cancelled_caught, moved.cancelled_caught]
    await anyio.lowlevel.checkpoint()
    return [seen, await outcome(anyio.sleep(0))]


LEFT: list[Any] = []


@program()
async def anyio_scope_is_left_open(scope: Scope, receive: Receive, send: Send) -> Any:
    """Enter a scope without leaving it, which must not reach the next request."""
    LEFT.append(anyio.CancelScope())
    LEFT[-1].__enter__()
    LEFT[-1].cancel()
    await respond(send, b'"open"')
    return SENT


@program()
async def anyio_threads(scope: Scope, receive: Receive, send: Send) -> Any:
    async def on_the_loop(value: int) -> int:
        await anyio.sleep(0)
        return value + 1

    def thread() -> Any:
        return [anyio.from_thread.run(on_the_loop, 1), anyio.from_thread.run_sync(len, "ab")]

    limiter = anyio.CapacityLimiter(1)
    seen = await anyio.to_thread.run_sync(thread, limiter=limiter)
    return [seen, limiter.borrowed_tokens, limiter.available_tokens]


@program()
async def anyio_portal(scope: Scope, receive: Receive, send: Send) -> Any:
    async with anyio.from_thread.BlockingPortal() as portal:
        return await anyio.to_thread.run_sync(portal.call, anyio.lowlevel.checkpoint)


channel: dict[str, Any] = {}


@program(together=2)
async def anyio_channel_of_two(scope: Scope, receive: Receive, send: Send) -> Any:
    if "pair" not in channel:
        channel["pair"] = anyio.create_memory_object_stream[int](1)
    sender, receiver = channel["pair"]
    if number(scope) == 0:
        async with sender:
            for item in range(3):
                await sender.send(item)
        return "sent"
    async with receiver:
        taken = [item async for item in receiver]
    del channel["pair"]
    return taken


@program(together=3)
async def anyio_lock_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    lock = channel.setdefault("lock", anyio.Lock())
    log = channel.setdefault("log", [])
    async with lock:
        log.append(number(scope))
        await anyio.lowlevel.checkpoint()
    while len(log) % 3:
        await anyio.lowlevel.checkpoint()
    return log[-3:]


@program()
async def anyio_looks_at_tasks(scope: Scope, receive: Receive, send: Send) -> Any:
    task = anyio.get_current_task()
    seen = [task in anyio.get_running_tasks(), task.parent_id is None, bool(task.name)]
    await anyio.lowlevel.checkpoint()
    return [seen, anyio.get_current_task() == task]


@program()
async def anyio_native_cancellation(scope: Scope, receive: Receive, send: Send) -> Any:
    """Cancel a task from outside while it is in a scope of anyio's."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.001, task.cancel)
    try:
        with anyio.CancelScope() as entered:
            await anyio.sleep(10)
    except asyncio.CancelledError:
        return [entered.cancelled_caught, task.uncancel()]
