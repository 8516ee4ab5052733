"""What several requests share: futures, tasks, locks, events, queues, semaphores, conditions.

The requests of a program reach the server at the same time, while its loop is blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from differential.programs.table import Receive, Scope, Send, number, outcome, program, shown


class Shared:
    """What the requests of one round have in common; the last of them to leave ends the round."""

    def __init__(self, requests: int, make: Callable[[], Any]) -> None:
        self._requests = requests
        self._make = make
        self._left = 0
        self.log: list[Any] = []
        self.thing: Any = None

    def enter(self) -> Any:
        """Return the thing, which the first one makes."""
        if self.thing is None:
            self.thing = self._make()
        return self.thing

    def leave(self) -> list[Any]:
        """Return what was logged so far; the last one clears it."""
        log, self._left = list(self.log), self._left + 1
        if self._left == self._requests:
            self.log, self.thing, self._left = [], None, 0
        return log


def later(future: asyncio.Future[Any], value: Any) -> asyncio.Future[Any]:
    """Resolve a future after the requests of this pass have begun."""
    asyncio.get_running_loop().call_later(0.02, future.set_result, value)
    return future


async def work() -> str:
    """Take a while."""
    await asyncio.sleep(0.001)
    return "worked"


async def failing_work() -> str:
    """Fail after a while."""
    await asyncio.sleep(0.001)
    raise LookupError("nothing")


future = Shared(3, lambda: later(asyncio.get_running_loop().create_future(), "value"))


@program(together=3)
async def future_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    given = await outcome(future.enter())
    future.leave()
    return given


task = Shared(3, lambda: asyncio.create_task(work()))


@program(together=3)
async def task_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    given = await outcome(task.enter())
    task.leave()
    return given


failing_task = Shared(3, lambda: asyncio.create_task(failing_work()))


@program(together=3)
async def failing_task_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    given = await outcome(failing_task.enter())
    failing_task.leave()
    return given


gathered = Shared(3, lambda: asyncio.create_task(work()))


@program(together=3)
async def task_of_three_in_other_ways(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = gathered.enter()
    ways: list[Callable[[], Awaitable[Any]]] = [
        lambda: asyncio.gather(shared, shared),
        lambda: asyncio.shield(shared),
        lambda: asyncio.wait_for(asyncio.shield(shared), 10),
    ]
    given = await outcome(ways[number(scope)]())
    gathered.leave()
    return given


cancelled = Shared(2, lambda: asyncio.create_task(asyncio.sleep(10)))


@program(together=2)
async def shared_task_is_cancelled(scope: Scope, receive: Receive, send: Send) -> Any:
    shared, own = cancelled.enter(), asyncio.current_task()
    assert own is not None
    if number(scope) == 0:
        asyncio.get_running_loop().call_later(0.02, own.cancel, "request 0")
    seen = [await outcome(shared), own.cancelling(), shared.cancelled()]
    cancelled.leave()
    return seen


requests = Shared(2, dict)


@program(together=2)
async def request_awaits_another_request(scope: Scope, receive: Receive, send: Send) -> Any:
    seen, own = requests.enter(), number(scope)
    seen[own] = asyncio.current_task()
    if own == 1:
        while 0 not in seen:
            await asyncio.sleep(0)
        given = await outcome(seen[0])
        requests.leave()
        return given
    while 1 not in seen:
        await asyncio.sleep(0)
    requests.leave()
    return "first"


lock = Shared(4, asyncio.Lock)


@program(together=4)
async def lock_of_four(scope: Scope, receive: Receive, send: Send) -> Any:
    async with lock.enter():
        lock.log.append(f"{number(scope)} in")
        await asyncio.sleep(0)
        lock.log.append(f"{number(scope)} out")
    return lock.leave()


event = Shared(3, asyncio.Event)


@program(together=3)
async def event_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = event.enter()
    if number(scope) == 2:
        event.log.append("set")
        shared.set()
    await shared.wait()
    event.log.append(number(scope))
    return event.leave()


queue = Shared(3, lambda: asyncio.Queue[int](maxsize=1))


@program(together=3)
async def queue_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    shared, own = queue.enter(), number(scope)
    if own < 2:
        taken = [await shared.get() for _ in range(3)]
        for _ in taken:
            shared.task_done()
        queue.leave()
        return taken
    for item in range(6):
        await shared.put(item)
    await shared.join()
    queue.leave()
    return [shared.qsize(), shared.empty()]


priorities = Shared(2, lambda: asyncio.PriorityQueue[int]())


@program(together=2)
async def priority_queue_of_two(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = priorities.enter()
    if number(scope) == 0:
        taken = [await shared.get() for _ in range(3)]
        priorities.leave()
        return [taken, await outcome(asyncio.wait_for(shared.get(), 0.001))]
    for item in (3, 1, 2):
        shared.put_nowait(item)
    priorities.leave()
    return "put"


semaphore = Shared(4, lambda: [asyncio.BoundedSemaphore(2), 0, 0])


@program(together=4)
async def semaphore_of_four(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = semaphore.enter()
    async with shared[0]:
        shared[1] += 1
        shared[2] = max(shared[1], shared[2])
        semaphore.log.append(number(scope))
        await asyncio.sleep(0.001)
        shared[1] -= 1
    most = shared[2]
    try:
        if semaphore._left == 3:
            shared[0].release()
    except ValueError as error:
        semaphore.log.append(shown(error))
    return [most, semaphore.leave() if semaphore._left == 3 else semaphore.leave() and "left"]


condition = Shared(3, lambda: [asyncio.Condition(), []])


@program(together=3)
async def condition_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    shared, items = condition.enter()
    async with shared:
        if number(scope) < 2:
            await shared.wait_for(lambda: items)
            condition.log.append([number(scope), items.pop()])
        else:
            items.extend("ab")
            condition.log.append("notified")
            shared.notify_all()
    return condition.leave()


barrier = Shared(3, lambda: asyncio.Barrier(3))


@program(together=3)
async def barrier_of_three(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = barrier.enter()
    position = await shared.wait()
    barrier.leave()
    return [position, shared.broken]


turns = Shared(3, list)


@program(together=3)
async def requests_take_turns(scope: Scope, receive: Receive, send: Send) -> Any:
    turns.enter()
    for step in range(3):
        turns.log.append(f"{number(scope)}{step}")
        await asyncio.sleep(0)
    while len(turns.log) < 9:
        await asyncio.sleep(0)
    return turns.leave()


soon = Shared(2, list)


@program(together=2)
async def callbacks_follow_the_handlers_of_their_pass(
    scope: Scope, receive: Receive, send: Send
) -> Any:
    soon.enter()
    soon.log.append(f"handler {number(scope)}")
    asyncio.get_running_loop().call_soon(soon.log.append, f"callback {number(scope)}")
    while len(soon.log) < 4:
        await asyncio.sleep(0)
    return soon.leave()


woken = Shared(3, lambda: later(asyncio.get_running_loop().create_future(), None))


@program(together=3)
async def requests_wake_in_their_order(scope: Scope, receive: Receive, send: Send) -> Any:
    shared = woken.enter()

    async def child() -> None:
        await shared
        woken.log.append(f"child {number(scope)}")

    task = asyncio.create_task(child())
    await outcome(shared)
    woken.log.append(number(scope))
    await task
    while len(woken.log) < 6:
        await asyncio.sleep(0)
    return woken.leave()
