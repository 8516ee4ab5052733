"""Cancellation and timeouts: by the handler itself, and by another request."""

from __future__ import annotations

import asyncio
from typing import Any

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


def own() -> asyncio.Task[Any]:
    """Return the task of the request."""
    task = asyncio.current_task()
    assert task is not None
    return task


@program()
async def self_cancel(scope: Scope, receive: Receive, send: Send) -> Any:
    task = own()
    seen: list[Any] = [task.cancel("why"), task.cancelling(), task.cancelled()]
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError as error:
        seen += [shown(error), list(error.args), task.cancelling()]
    seen += [task.uncancel(), task.cancelling()]
    await asyncio.sleep(0)
    return seen


@program()
async def self_cancel_twice(scope: Scope, receive: Receive, send: Send) -> Any:
    task, seen = own(), []
    task.cancel("one")
    task.cancel("two")
    for pause_s in (0, 0):
        try:
            await asyncio.sleep(pause_s)
            seen.append("slept")
        except asyncio.CancelledError as error:
            seen.append(shown(error))
    return [seen, task.cancelling(), task.uncancel(), task.uncancel(), task.uncancel()]


@program()
async def self_cancel_and_return(scope: Scope, receive: Receive, send: Send) -> Any:
    own().cancel()
    await respond(send, b'"returned"')
    return SENT


@program()
async def self_cancel_uncaught(scope: Scope, receive: Receive, send: Send) -> Any:
    own().cancel()
    await asyncio.sleep(0.001)
    return "slept"


@program()
async def cancelled_error_raised(scope: Scope, receive: Receive, send: Send) -> Any:
    raise asyncio.CancelledError


@program()
async def uncancel_before_it_arrives(scope: Scope, receive: Receive, send: Send) -> Any:
    task = own()
    task.cancel()
    count = task.uncancel()
    return [count, await outcome(asyncio.sleep(0, "slept")), await outcome(asyncio.sleep(0, "on"))]


@program()
async def cancelled_in_a_chain(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    async def deep(left: int) -> None:
        try:
            if left:
                await deep(left - 1)
            else:
                await asyncio.sleep(10)
        except asyncio.CancelledError:
            log.append(left)
            await asyncio.sleep(0)
            raise
        finally:
            log.append(f"finally {left}")

    task = own()
    asyncio.get_running_loop().call_later(0.001, task.cancel)
    ended = await outcome(deep(2))
    task.uncancel()
    return [ended, log]


@program()
async def shield(scope: Scope, receive: Receive, send: Send) -> Any:
    async def inner() -> str:
        await asyncio.sleep(0.001)
        return "inner"

    task, work = own(), asyncio.create_task(inner())
    asyncio.get_running_loop().call_soon(task.cancel)
    seen = await outcome(asyncio.shield(work))
    task.uncancel()
    return [seen, work.cancelled(), await work]


@program()
async def timeout_expires(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[Any] = []
    for delay_s in (0.001, 0, -1):
        timeout = asyncio.timeout(delay_s)
        try:
            async with timeout:
                await asyncio.sleep(10)
        except TimeoutError as error:
            seen.append([shown(error.__cause__), timeout.expired(), own().cancelling()])
    return seen


@program()
async def timeout_of_zero_without_a_suspension(scope: Scope, receive: Receive, send: Send) -> Any:
    async with asyncio.timeout(0) as timeout:
        pass
    seen = [timeout.expired(), own().cancelling()]
    await asyncio.sleep(0)
    return [seen, timeout.expired(), own().cancelling()]


@program()
async def timeout_of_zero_and_one_turn(scope: Scope, receive: Receive, send: Send) -> Any:
    async def one_turn() -> str:
        async with asyncio.timeout(0):
            await asyncio.sleep(0)
        return "in time"

    return [await outcome(one_turn()), own().cancelling()]


@program()
async def timeouts_nested(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[Any] = []
    try:
        async with asyncio.timeout(0.001) as outer:
            async with asyncio.timeout(10) as inner:
                await asyncio.sleep(10)
    except TimeoutError:
        seen = [outer.expired(), inner.expired()]
    async with asyncio.timeout(10) as moved:
        moved.reschedule(None)
        seen.append(moved.when())
    async with asyncio.timeout_at(None):
        await asyncio.sleep(0)
    return [seen, own().cancelling()]


@program()
async def timeout_and_cancellation(scope: Scope, receive: Receive, send: Send) -> Any:
    task, seen = own(), []
    try:
        async with asyncio.timeout(0) as timeout:
            task.cancel("outside")
            await asyncio.sleep(0)
    except BaseException as error:
        seen = [shown(error), timeout.expired(), task.cancelling()]
    task.uncancel()
    return [seen, await outcome(asyncio.sleep(0, "slept"))]


@program()
async def wait_for(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    done = asyncio.get_running_loop().create_future()
    done.set_result("done")

    async def begins() -> str:
        log.append("begun")
        await asyncio.sleep(0)
        return "ended"

    return [
        await outcome(asyncio.wait_for(done, 0)),
        await outcome(asyncio.wait_for(begins(), 0)),
        await outcome(asyncio.wait_for(begins(), None)),
        await outcome(asyncio.wait_for(begins(), 10)),
        await outcome(asyncio.wait_for(asyncio.Event().wait(), 0.001)),
        log,
        own().cancelling(),
    ]


@program()
async def cancelled_task_group(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    task = own()

    async def child() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            log.append("child")

    async def group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            asyncio.get_running_loop().call_soon(task.cancel, "outside")

    seen = await outcome(group())
    return [seen, log, task.cancelling(), task.uncancel()]


WAITING: dict[str, asyncio.Task[Any]] = {}


@program(together=2)
async def cancelled_by_another_request(scope: Scope, receive: Receive, send: Send) -> Any:
    if number(scope) == 0:
        WAITING["a"] = own()
        seen = await outcome(asyncio.sleep(10))
        return [seen, own().cancelling(), own().uncancel(), await outcome(asyncio.sleep(0, "on"))]
    while "a" not in WAITING:
        await asyncio.sleep(0)
    return WAITING.pop("a").cancel("by another")


@program(together=2)
async def cancelled_by_another_request_at_sleep_zero(
    scope: Scope, receive: Receive, send: Send
) -> Any:
    if number(scope) == 0:
        WAITING["b"] = own()
        seen = []
        while not seen or seen[-1] is None:
            seen = [await outcome(asyncio.sleep(0))]
        return [seen, own().uncancel()]
    while "b" not in WAITING:
        await asyncio.sleep(0)
    return WAITING.pop("b").cancel()


@program(together=2)
async def cancelled_by_another_request_uncaught(scope: Scope, receive: Receive, send: Send) -> Any:
    if number(scope) == 0:
        WAITING["c"] = own()
        await asyncio.sleep(10)
        return "slept"
    while "c" not in WAITING:
        await asyncio.sleep(0)
    return WAITING.pop("c").cancel()


@program(together=2)
async def cancelled_by_another_request_in_a_timeout(
    scope: Scope, receive: Receive, send: Send
) -> Any:
    if number(scope) == 0:
        WAITING["d"] = own()
        try:
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        except BaseException as error:
            return [shown(error), own().cancelling()]
    while "d" not in WAITING:
        await asyncio.sleep(0)
    return WAITING.pop("d").cancel("other")


@program()
async def cancelled_by_a_child(scope: Scope, receive: Receive, send: Send) -> Any:
    task, future, seen = own(), asyncio.get_running_loop().create_future(), list[Any]()

    async def cancel() -> None:
        seen.append([task.cancel("by a child"), future.cancelled(), task.cancelling()])

    child = asyncio.create_task(cancel())
    seen.append(await outcome(future))
    task.uncancel()
    await child
    return [seen, future.cancelled()]


@program()
async def cancelled_when_the_future_is_done(scope: Scope, receive: Receive, send: Send) -> Any:
    task, future = own(), asyncio.get_running_loop().create_future()

    def resolve_and_cancel() -> None:
        future.set_result("result")
        task.cancel()

    asyncio.get_running_loop().call_soon(resolve_and_cancel)
    return [await outcome(future), task.uncancel(), await outcome(asyncio.sleep(0, "on"))]


@program()
async def cancelled_gather_of_the_handler(scope: Scope, receive: Receive, send: Send) -> Any:
    task, seen = own(), list[Any]()

    async def child(name: str) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError as error:
            seen.append([name, *error.args])
            raise

    asyncio.get_running_loop().call_soon(task.cancel, "all")
    seen.append(await outcome(asyncio.gather(child("a"), child("b"))))
    return [seen, task.uncancel()]


@program()
async def cancellation_is_refused(scope: Scope, receive: Receive, send: Send) -> Any:
    task, seen = own(), list[Any]()
    for _ in range(3):
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append(task.cancelling())
    return seen
