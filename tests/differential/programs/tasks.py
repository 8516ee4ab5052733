"""Tasks that a handler makes: their order, groups, and the ways of waiting for several."""

from __future__ import annotations

import asyncio
from typing import Any

from differential.programs.table import Receive, Scope, Send, outcome, program, shown


async def value(number: int, log: list[Any] | None = None, turns: int = 0) -> int:
    """Return a number after some turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    if log is not None:
        log.append(number)
    return number


async def fails(turns: int = 0) -> None:
    """Fail after some turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    raise ValueError("failed")


async def waits(log: list[Any], name: str) -> None:
    """Wait for ever, and log the cancellation."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        log.append(name)
        raise


@program()
async def create_task_order(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = ["begin"]
    one = asyncio.create_task(value(1, log))
    asyncio.get_running_loop().call_soon(log.append, "soon")
    two = asyncio.create_task(value(2, log))
    log.append("made")
    result = await two, await one
    return [log, result, one.done(), two.done()]


@program()
async def created_task_has_not_begun(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    task = asyncio.create_task(value(1, log))
    seen = [list(log), task.done(), task in asyncio.all_tasks()]
    await asyncio.sleep(0)
    return [seen, log, task.done()]


@program()
async def task_group(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    async with asyncio.TaskGroup() as group:
        made = [group.create_task(value(n, log, turns=3 - n)) for n in range(3)]
        log.append("body")
    return [log, [each.result() for each in made]]


@program()
async def task_group_failure(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    task = asyncio.current_task()
    assert task is not None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(log, "first"))
            group.create_task(fails(turns=1))
            await waits(log, "body")
    except BaseException as error:
        log.append(shown(error))
    return [log, task.cancelling()]


@program()
async def task_group_failure_in_its_body(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(log, "never begun"))
            raise KeyError("body")
    except BaseException as error:
        log.append(shown(error))
    return log


@program()
async def nested_task_groups(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(waits(log, "inner"))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())
            group.create_task(waits(log, "outer"))
    except* ValueError as error:
        log.append(shown(error))
    return log


@program()
async def gather(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    given = await asyncio.gather(*(value(n, log, turns=3 - n) for n in range(3)))
    both = await asyncio.gather(fails(), value(7), return_exceptions=True)
    return [given, log, shown(both[0]), both[1], await asyncio.gather()]


@program()
async def gather_failure_leaves_the_others(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    other = asyncio.create_task(value(1, log, turns=5))
    failure = await outcome(asyncio.gather(fails(), other))
    seen = other.done()
    return [failure, seen, await other, log]


@program()
async def gather_cancelled(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    both = asyncio.gather(waits(log, "a"), waits(log, "b"))
    asyncio.get_running_loop().call_soon(both.cancel, "enough")
    return [await outcome(both), log, both.cancelled()]


@program()
async def wait_for_the_first(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    quick, slow = asyncio.create_task(value(1)), asyncio.create_task(waits(log, "slow"))
    done, pending = await asyncio.wait({quick, slow}, return_when=asyncio.FIRST_COMPLETED)
    slow.cancel("over")
    rest, none = await asyncio.wait(pending)
    seen = [done == {quick}, pending == {slow}, rest == {slow}, not none]
    return [seen, log, slow.cancelled()]


@program()
async def wait_with_a_timeout(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    seen = []
    task = asyncio.create_task(waits(log, "slow"))
    for timeout_s in (0, 0.001):
        done, pending = await asyncio.wait([task], timeout=timeout_s)
        seen.append([len(done), len(pending), task.cancelling()])
    task.cancel()
    return [seen, await outcome(task), log]


@program()
async def as_completed(scope: Scope, receive: Receive, send: Send) -> Any:
    works = [value(n, turns=3 * n) for n in (2, 0, 1)]
    given = [await each for each in asyncio.as_completed(works)]
    late = asyncio.create_task(waits([], "late"))
    raised = [await outcome(each) for each in asyncio.as_completed([late], timeout=0.001)]
    late.cancel()
    return [given, raised, await outcome(late)]


@program()
async def sleep_zero_takes_turns(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []

    async def walk(name: str) -> None:
        for step in range(3):
            log.append(f"{name}{step}")
            await asyncio.sleep(0)

    others = [asyncio.create_task(walk("a")), asyncio.create_task(walk("b"))]
    await walk("own")
    await asyncio.gather(*others)
    return log


@program()
async def sleep_zero_waits_one_turn(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    loop = asyncio.get_running_loop()

    def turn(left: int) -> None:
        log.append(left)
        if left:
            loop.call_soon(turn, left - 1)

    await asyncio.sleep(0)
    loop.call_soon(turn, 3)
    for _ in range(3):
        await asyncio.sleep(0)
        log.append("own")
    return log


@program()
async def task_factory(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    made: list[Any] = []

    def factory(loop: Any, coroutine: Any, **keywords: Any) -> Any:
        made.append(coroutine.__name__)
        return asyncio.Task(coroutine, loop=loop, **keywords)

    before = loop.get_task_factory()
    loop.set_task_factory(factory)
    try:
        given = await asyncio.create_task(value(3), name="named")
        async with asyncio.TaskGroup() as group:
            group.create_task(value(4))
    finally:
        loop.set_task_factory(before)
    return [before is None, given, made]


@program()
async def eager_task_factory(scope: Scope, receive: Receive, send: Send) -> Any:
    factory = getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        return "Python 3.12"
    loop, log = asyncio.get_running_loop(), list[Any]()
    request = asyncio.current_task()

    async def child(turns: int) -> int:
        log.append([asyncio.current_task() is request, turns])
        return await value(turns, log, turns)

    loop.set_task_factory(factory)
    try:
        at_once, later = asyncio.create_task(child(0)), asyncio.create_task(child(2))
    finally:
        loop.set_task_factory(None)
    log.append([at_once.done(), later.done(), asyncio.current_task() is request])
    return [log, await at_once, await later]


@program()
async def done_tasks_are_awaited_at_once(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    task = asyncio.create_task(value(5))
    await task
    asyncio.get_running_loop().call_soon(log.append, "turn")
    again = await task, await task
    return [again, log]


@program()
async def result_before_the_end(scope: Scope, receive: Receive, send: Send) -> Any:
    task = asyncio.create_task(value(5, turns=1))
    seen = []
    for _ in range(2):
        try:
            seen.append(task.result())
        except asyncio.InvalidStateError as error:
            seen.append(shown(error))
        await task
    return [seen, shown(task.exception())]


@program()
async def waiters_wake_in_their_order(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    future = loop.create_future()

    async def wait(name: str) -> None:
        await future
        log.append(name)

    def resolve(turns: int) -> None:
        # A timer would be due before all of them wait where the machine is busy.
        if turns:
            loop.call_soon(resolve, turns - 1)
        else:
            future.set_result(None)

    children = [asyncio.create_task(wait(name)) for name in "ab"]
    resolve(3)
    await wait("own")
    await asyncio.gather(*children)
    return log


@program()
async def future_is_resolved_in_the_next_turn(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    future = loop.create_future()

    def turn(left: int) -> None:
        log.append(left)
        if left:
            loop.call_soon(turn, left - 1)

    loop.call_soon(future.set_result, None)
    loop.call_soon(turn, 3)
    await future
    log.append("woken")
    await asyncio.sleep(0.05)
    return log


@program()
async def children_begin_in_their_order(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    first = asyncio.create_task(value(1, log, turns=1))
    asyncio.get_running_loop().call_soon(log.append, "soon")
    second = asyncio.create_task(value(2, log))
    await first
    log.append("own")
    await second
    return log


@program()
async def event_wakes_the_handler_in_its_turn(scope: Scope, receive: Receive, send: Send) -> Any:
    log, event = list[Any](), asyncio.Event()

    async def wait(name: str) -> None:
        await event.wait()
        log.append(name)

    async def set_soon() -> None:
        event.set()
        await asyncio.sleep(0)
        log.append("setter")

    children = [asyncio.create_task(wait("child")), asyncio.create_task(set_soon())]
    await wait("own")
    await asyncio.gather(*children)
    return log
