"""Checks of what asyncio promises a handler about its task: identity, groups, contextvars."""

from __future__ import annotations

import asyncio
import contextvars
import io

from probe import Probes, same

probe = Probes()
app = probe.app
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@probe
async def task_is_real_and_stays() -> None:
    # A handler has one real task from its begin to its end.
    task = asyncio.current_task()
    same(type(task), asyncio.Task)
    assert task is not None
    for pause in (0, 0.001, 0, 0):
        await asyncio.sleep(pause)
        assert asyncio.current_task() is task
        assert task in asyncio.all_tasks()
    same((task.done(), task.cancelled(), task.cancelling()), (False, False, 0))


@probe
async def task_can_be_looked_at() -> None:
    """Reply to whatever a debugger asks a task."""
    task = asyncio.current_task()
    assert task is not None
    for _ in range(2):
        assert task.get_name()
        assert "pending" in repr(task), repr(task)
        assert asyncio.iscoroutine(task.get_coro())
        assert repr(task.get_coro())
        task.get_stack()
        task.print_stack(file=io.StringIO())
        await asyncio.sleep(0)


@probe
async def loop_is_the_running_one() -> None:
    # The running loop is the task's.
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None and task.get_loop() is loop
    await asyncio.sleep(0)
    assert asyncio.get_running_loop() is loop
    assert asyncio.current_task(loop) is task


@probe
async def task_cannot_await_itself() -> None:
    # A task that waits for itself gets an error, as in plain asyncio.
    task = asyncio.current_task()
    assert task is not None
    try:
        await task
    except RuntimeError as error:
        assert "await on itself" in str(error), error
    else:
        raise AssertionError("it awaited itself")


@probe
async def foreign_objects_cannot_be_yielded() -> None:
    # What is no future is refused where it was awaited, as in plain asyncio.

    class Odd:
        def __await__(self):
            yield 42

    try:
        await Odd()
    except RuntimeError as error:
        assert "42" in str(error), error
    else:
        raise AssertionError("an int was awaited")
    await asyncio.sleep(0)


@probe
async def many_turns() -> None:
    # A handler may give way as often as it likes.
    for _ in range(300):
        await asyncio.sleep(0)


@probe
async def group_runs_children() -> None:
    # A task group waits for its children.

    async def child(number: int) -> int:
        await asyncio.sleep(0.001 * number)
        return number

    async with asyncio.TaskGroup() as group:
        children = [group.create_task(child(number)) for number in range(3)]
    same([each.result() for each in children], [0, 1, 2])
    assert asyncio.current_task() not in children


@probe
async def group_fails_with_a_child() -> None:
    # A failing child cancels its parent's body and its sibling.
    sibling_end = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("child")

    async def sibling() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            sibling_end.append("cancelled")
            raise

    caught: BaseExceptionGroup | None = None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            group.create_task(failing())
            await asyncio.sleep(60)
    except* KeyError as errors:
        caught = errors
    assert caught is not None
    same((len(caught.exceptions), sibling_end), (1, ["cancelled"]))
    task = asyncio.current_task()
    assert task is not None
    same(task.cancelling(), 0)
    await asyncio.sleep(0)


@probe
async def group_fails_with_its_body() -> None:
    # An exception in the body cancels the children.
    ends = []

    async def child() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("ended")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await asyncio.sleep(0)
            raise ValueError("body")
    except* ValueError:
        ends.append("caught")
    same(ends, ["ended", "caught"])


@probe
async def gather_collects() -> None:
    """Gathering gives results in order, or the first failure."""

    async def value(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise KeyError(number)
        return number

    same(await asyncio.gather(*map(value, range(5))), list(range(5)))
    given = await asyncio.gather(value(1), value(-1), return_exceptions=True)
    same([type(each) for each in given], [int, KeyError])
    try:
        await asyncio.gather(value(-1), value(1))
    except KeyError:
        return
    raise AssertionError("gather did not fail")


@probe
async def shield_keeps_the_inner_task() -> None:
    # A shielded task survives the cancellation of the one that waits.
    task = asyncio.current_task()
    assert task is not None
    inner = asyncio.create_task(asyncio.sleep(0.01, "inner"))
    asyncio.get_running_loop().call_soon(task.cancel)
    try:
        await asyncio.shield(inner)
    except asyncio.CancelledError:
        task.uncancel()
    else:
        raise AssertionError("it was not cancelled")
    same(await inner, "inner")


@probe
async def waiting_for_several() -> None:
    """`wait` and `as_completed` come out as they should."""
    tasks = [asyncio.create_task(asyncio.sleep(pause, pause)) for pause in (0.2, 0.001)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    same((done, pending), ({tasks[1]}, {tasks[0]}))
    same([await each for each in asyncio.as_completed(tasks)], [0.001, 0.2])


@probe
async def context_is_fresh() -> None:
    # What another handler set is not there; what this one sets stays.
    same(VARIABLE.get(), "unset")
    token = VARIABLE.set("mine")
    for pause in (0, 0.001):
        await asyncio.sleep(pause)
        same(VARIABLE.get(), "mine")
    VARIABLE.reset(token)
    same(VARIABLE.get(), "unset")
    VARIABLE.set("left")


@probe
async def context_is_fresh_again() -> None:
    # The handler before left something, and this one must not see it.
    same(VARIABLE.get(), "unset")
    VARIABLE.set("left again")


@probe
async def context_reaches_children_and_callbacks() -> None:
    """Tasks, callbacks, timers and threads start with a copy of the handler's context."""
    loop = asyncio.get_running_loop()
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    VARIABLE.set("mine")

    def note(how: str) -> None:
        seen.put_nowait((how, VARIABLE.get()))
        VARIABLE.set("a callback's")

    async def child() -> None:
        await asyncio.sleep(0)
        seen.put_nowait(("child", VARIABLE.get()))
        VARIABLE.set("a child's")

    loop.call_later(0.001, note, "later")
    future = loop.create_future()
    future.add_done_callback(lambda _: note("done"))
    future.set_result(None)
    await asyncio.gather(child(), asyncio.to_thread(loop.call_soon_threadsafe, note, "thread"))
    got = dict([await seen.get() for _ in range(4)])
    same(got, dict.fromkeys(("child", "later", "done", "thread"), "mine"))


@probe
async def context_of_a_callback_is_the_handlers_own() -> None:
    """`call_soon` runs in the very context of the handler, as in plain asyncio: a copy is no one's.

    Plain asyncio hands the callback a copy too (`contextvars.copy_context()`).
    """
    called = asyncio.Event()

    def callback() -> None:
        same(VARIABLE.get(), "mine")
        VARIABLE.set("the callback's")
        called.set()

    VARIABLE.set("mine")
    asyncio.get_running_loop().call_soon(callback)
    await called.wait()
    same(VARIABLE.get(), "mine")
