"""Checks of timeouts and cancellations in a handler; three that end it by one are at the end."""

from __future__ import annotations

import asyncio
import sys

from probe import Probes, same

from bolide import Request

probe = Probes()
app = probe.app
FOREVER_S = 60


def own_task() -> asyncio.Task[object]:
    """Return the handler's task."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def is_usable() -> None:
    """Check that the task can wait and is not cancelled any more."""
    for pause in (0, 0.001):
        await asyncio.sleep(pause)
    same(own_task().cancelling(), 0)


async def must_time_out(delay_s: float, wait_s: float) -> None:
    """Check that a timeout ends a wait."""
    try:
        async with asyncio.timeout(delay_s) as timeout:
            await asyncio.sleep(wait_s)
            await asyncio.sleep(FOREVER_S)
    except TimeoutError:
        assert timeout.expired()
    else:
        raise AssertionError("it did not expire")
    await is_usable()


@probe
async def timeout_expires() -> None:
    # A timeout ends a sleep.
    await must_time_out(0.01, FOREVER_S)


@probe
async def timeout_of_zero() -> None:
    # A timeout that is over at once ends the first wait.
    await must_time_out(0, FOREVER_S)


@probe
async def timeout_of_zero_and_giving_way() -> None:
    # The same when the first wait is for no future.
    await must_time_out(0, 0)


@probe
async def timeout_in_the_past() -> None:
    # A negative timeout is one of zero.
    await must_time_out(-1, FOREVER_S)


@probe
async def timeout_does_not_expire() -> None:
    # What is quick enough is not disturbed, then or later.
    for pause in (None, 0, 0.001):
        async with asyncio.timeout(0.2) as timeout:
            if pause is not None:
                await asyncio.sleep(pause)
        assert not timeout.expired()
    await asyncio.sleep(0.21)
    await is_usable()


@probe
async def timeout_inside_another() -> None:
    # The inner one expires, the outer one does not.
    async with asyncio.timeout(5) as outer:
        await must_time_out(0.005, FOREVER_S)
    assert not outer.expired()
    await is_usable()


@probe
async def timeout_around_another() -> None:
    # The outer one expires through the inner one.
    try:
        async with asyncio.timeout(0.005) as outer:
            async with asyncio.timeout(5) as inner:
                await asyncio.sleep(FOREVER_S)
    except TimeoutError:
        same((outer.expired(), inner.expired()), (True, False))
    else:
        raise AssertionError("it did not expire")
    await is_usable()


@probe
async def timeout_is_rescheduled() -> None:
    # A deadline can be moved both ways.
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(0.005) as timeout:
        timeout.reschedule(None)
        await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(None) as timeout:
            timeout.reschedule(loop.time() + 0.005)
            await asyncio.sleep(FOREVER_S)
    except TimeoutError:
        await is_usable()
    else:
        raise AssertionError("it did not expire")


@probe
async def wait_for_expires() -> None:
    """`wait_for` cancels what it waits for."""
    ends = []

    async def slow() -> None:
        try:
            await asyncio.sleep(FOREVER_S)
        finally:
            ends.append("cancelled")

    for timeout_s in (0.005, 0.0001):
        try:
            await asyncio.wait_for(slow(), timeout_s)
        except TimeoutError:
            continue
        raise AssertionError("it did not expire")
    same(ends, ["cancelled"] * 2)
    same(await asyncio.wait_for(asyncio.sleep(0, "quick"), 5), "quick")
    await is_usable()


@probe
async def cancelling_oneself() -> None:
    # The exception arrives at the next wait, with its message.
    task = own_task()
    assert task.cancel("why")
    same(task.cancelling(), 1)
    try:
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError as error:
        same(error.args, ("why",))
        same((task.cancelling(), task.uncancel()), (1, 0))
    else:
        raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def cancelling_oneself_and_giving_way() -> None:
    # The same when the next wait is for no future.
    own_task().cancel("why")
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as error:
        same(error.args, ("why",))
        own_task().uncancel()
    else:
        raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def cancelling_and_taking_it_back() -> None:
    """Since 3.13 `uncancel` takes a cancellation back that has not arrived."""
    task = own_task()
    task.cancel()
    task.cancel()
    same(task.uncancel(), 1)
    same(task.uncancel(), 0)
    try:
        await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        assert sys.version_info < (3, 13)
    else:
        assert sys.version_info >= (3, 13)
    await is_usable()


@probe
async def cancelled_before_the_next_turn() -> None:
    # A cancellation between a suspension and the loop's next turn.
    asyncio.get_running_loop().call_soon(own_task().cancel, "soon")
    try:
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError as error:
        same(error.args, ("soon",))
        own_task().uncancel()
    else:
        raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def cancelled_before_the_next_turn_without_a_future() -> None:
    # The same when there is no future to cancel.
    asyncio.get_running_loop().call_soon(own_task().cancel)
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError:
        own_task().uncancel()
    else:
        raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def cancelled_when_the_future_is_done() -> None:
    # A cancellation wins over a result that has not arrived.
    loop = asyncio.get_running_loop()
    task, future = own_task(), loop.create_future()

    def settle() -> None:
        future.set_result("result")
        task.cancel()

    loop.call_soon(settle)
    try:
        await future
    except asyncio.CancelledError:
        task.uncancel()
    else:
        raise AssertionError("it was not cancelled")
    same(future.result(), "result")
    await is_usable()


@probe
async def cancelling_what_is_waited_for() -> None:
    # A cancelled child ends the wait for it and nothing more.
    child = asyncio.create_task(asyncio.sleep(FOREVER_S))
    asyncio.get_running_loop().call_soon(child.cancel)
    try:
        await child
    except asyncio.CancelledError:
        same(own_task().cancelling(), 0)
    else:
        raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def cleaning_up_may_wait() -> None:
    # A `finally` block may suspend while a cancellation passes.
    steps = []

    async def inner() -> None:
        try:
            await asyncio.sleep(FOREVER_S)
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            steps.append("cleaned")

    asyncio.get_running_loop().call_soon(own_task().cancel)
    try:
        await inner()
    except asyncio.CancelledError:
        own_task().uncancel()
    same(steps, ["cleaned"])
    await is_usable()


@probe
async def cancelled_many_times() -> None:
    """Every cancellation arrives on its own."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        loop.call_soon(own_task().cancel)
        try:
            await asyncio.sleep(FOREVER_S)
        except asyncio.CancelledError:
            own_task().uncancel()
        else:
            raise AssertionError("it was not cancelled")
    await is_usable()


@probe
async def escapes() -> None:
    """End the handler by its own cancellation."""
    own_task().cancel()
    await asyncio.sleep(FOREVER_S)


@probe
async def escapes_without_a_future() -> None:
    # The same, giving way only.
    own_task().cancel()
    await asyncio.sleep(0)


@probe
async def escapes_at_once() -> None:
    """End the handler by an exception of that kind."""
    raise asyncio.CancelledError


@probe
async def escapes_by_an_interrupt() -> None:
    """End the handler by what a person's signal would raise."""
    raise KeyboardInterrupt


@probe
async def escapes_by_an_exit() -> None:
    raise SystemExit(3)


@app.get("/plainly/{name}")
def plainly(request: Request, name: str) -> str:
    """Raise one of these in a function that is no coroutine."""
    raise {"interrupt": KeyboardInterrupt, "exit": SystemExit}[name]


@app.error_handler(TimeoutError)
def too_late(request: Request, error: TimeoutError) -> tuple[str, int]:
    """Respond for a timeout that nobody caught."""
    return "too late", 504


@app.get("/times-out/first")
async def times_out(request: Request) -> str:
    """Let a timeout out of the handler."""
    async with asyncio.timeout(0.005):
        await asyncio.sleep(FOREVER_S)
    return "never"


@app.get("/times-out/later")
async def times_out_later(request: Request) -> str:
    """Do it after a suspension."""
    await asyncio.sleep(0)
    return await times_out(request)
