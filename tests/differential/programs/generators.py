"""Generators, their finalization, and awaitables of the application's own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import types
import warnings
import weakref
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from differential.programs.table import Receive, Scope, Send, outcome, program, shown


async def numbers(log: list[Any]) -> AsyncIterator[int]:
    """Count, and log how it ends."""
    try:
        for number in range(10):
            yield number
            await asyncio.sleep(0)
    except GeneratorExit:
        log.append("exit")
        raise
    finally:
        await asyncio.sleep(0)
        log.append("finally")


@program()
async def generator_is_closed(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    source: Any = numbers(log)
    taken = [await anext(source), await anext(source)]
    await source.aclose()
    return [taken, log, await anext(source, "end"), await outcome(source.athrow(KeyError("x")))]


@program()
async def generator_is_abandoned(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    async for _ in numbers(log):
        break
    gc.collect()
    while "finally" not in log:
        await asyncio.sleep(0)
    return log


LEFT: list[Any] = []


@program()
async def generator_is_left_to_the_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    """Leave a generator that only the loop can close."""
    if not LEFT:
        LEFT.append(numbers(LEFT))
        await anext(LEFT[0])
        del LEFT[0]
        LEFT.append("left")
        return "left"
    while "finally" not in LEFT:
        await asyncio.sleep(0)
    seen = list(LEFT)
    LEFT.clear()
    return seen


@program()
async def generator_ignores_its_end(scope: Scope, receive: Receive, send: Send) -> Any:
    async def stubborn() -> AsyncIterator[int]:
        while True:
            with contextlib.suppress(GeneratorExit):
                yield 1

    source: Any = stubborn()
    await anext(source)
    seen = await outcome(source.aclose())
    with contextlib.suppress(KeyError):
        await source.athrow(KeyError)
    return seen


@program()
async def generator_is_cancelled(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    async def wait() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(10)
            yield 2
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def consume() -> None:
        async for each in wait():
            log.append(each)

    task = asyncio.create_task(consume())
    while not log:
        await asyncio.sleep(0)
    task.cancel()
    return [await outcome(task), log]


@program()
async def generator_is_used_twice_at_once(scope: Scope, receive: Receive, send: Send) -> Any:
    async def slow() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        yield 1

    source: Any = slow()
    first = asyncio.create_task(anext(source))
    await asyncio.sleep(0)
    second = await outcome(source.__anext__())
    return [await first, second, await outcome(source.aclose())]


@program()
async def exit_stack(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    @contextlib.asynccontextmanager
    async def held(name: str) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        try:
            yield name
        except ValueError as error:
            log.append(shown(error))
            raise KeyError(name) from error
        finally:
            await asyncio.sleep(0)
            log.append(name)

    async def use() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.sleep, 0)
            for name in "ab":
                await stack.enter_async_context(held(name))
            raise ValueError("inside")

    return [await outcome(use()), log]


class Yields:
    """An awaitable that yields what no loop expects."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __await__(self) -> Iterator[Any]:
        return (yield self.what)


@program()
async def bare_yield_is_one_turn(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    asyncio.get_running_loop().call_soon(log.append, "turn")
    return [await outcome(Yields(None)), log]


@program()
async def bad_yields(scope: Scope, receive: Receive, send: Send) -> Any:
    future = asyncio.get_running_loop().create_future()
    seen = [await outcome(Yields(what)) for what in (42, "text", future)]
    return [[name, text.partition(":")[0].partition(" <")[0]] for name, text in seen]


@program()
async def bad_yield_after_a_suspension(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.sleep(0)
    return [(await outcome(Yields(42)))[0], await outcome(asyncio.sleep(0, "on"))]


@program()
async def coroutine_that_is_a_generator(scope: Scope, receive: Receive, send: Send) -> Any:
    @types.coroutine
    def two_turns() -> Generator[Any, Any, str]:
        yield
        yield from asyncio.sleep(0).__await__()
        return "two turns"

    return [await two_turns(), await asyncio.create_task(outcome(two_turns()))]


@program()
async def task_awaits_itself(scope: Scope, receive: Receive, send: Send) -> Any:
    task = asyncio.current_task()
    assert task is not None
    first = await outcome(task)
    await asyncio.sleep(0)
    return [each[1].partition(":")[0] for each in (first, await outcome(task))]


@program()
async def coroutine_is_awaited_twice(scope: Scope, receive: Receive, send: Send) -> Any:
    work = asyncio.sleep(0, "slept")
    return [await work, await outcome(work)]


@program()
async def coroutine_is_never_awaited(scope: Scope, receive: Receive, send: Send) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work: Any = asyncio.sleep(0)
        del work
        gc.collect()
    return [str(each.message).partition("\n")[0] for each in caught]


@program()
async def coroutine_is_driven_by_hand(scope: Scope, receive: Receive, send: Send) -> Any:
    work = asyncio.sleep(0, "slept")
    seen = [repr(work.send(None))]
    try:
        work.send(None)
    except StopIteration as end:
        seen.append(end.value)
    return seen


@program()
async def stop_iteration_is_a_runtime_error(scope: Scope, receive: Receive, send: Send) -> Any:
    async def stops(error: BaseException, *, late: bool) -> None:
        if late:
            await asyncio.sleep(0)
        raise error

    errors: list[BaseException] = [StopIteration(1), StopAsyncIteration(2), GeneratorExit("3")]
    return [await outcome(stops(each, late=late)) for each in errors for late in (False, True)]


@program()
async def deep_chain_of_coroutines(scope: Scope, receive: Receive, send: Send) -> Any:
    async def deep(left: int) -> int:
        if left:
            return 1 + await deep(left - 1)
        await asyncio.sleep(0)
        return 0

    return [await deep(300), (await outcome(deep(5_000)))[0]]


@program()
async def weak_references_to_tasks(scope: Scope, receive: Receive, send: Send) -> Any:
    task = asyncio.create_task(asyncio.sleep(0))
    reference = weakref.ref(task)
    seen = [reference() is task]
    await task
    del task
    await asyncio.sleep(0)
    gc.collect()
    return [*seen, reference() is None]
