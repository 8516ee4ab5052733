"""Checks of anyio in handlers: its groups and scopes keep their state by task."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from probe import Probes, same

probe = Probes()
app = probe.app


@probe
async def group_runs_children() -> None:
    # A task group waits for its children.
    ended: list[int] = []

    async def child(number: int) -> None:
        await anyio.sleep(0.001)
        ended.append(number)

    async with anyio.create_task_group() as group:
        for number in (2, 0, 1):
            group.start_soon(child, number)
    same(sorted(ended), [0, 1, 2])


@probe
async def group_starts_a_child() -> None:
    """`start` waits until the child says that it is ready."""

    async def child(*, task_status: anyio.abc.TaskStatus[str]) -> None:
        await anyio.sleep(0)
        task_status.started("ready")
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        same(await group.start(child), "ready")
        group.cancel_scope.cancel()


@probe
async def group_fails_with_a_child() -> None:
    # A failing child cancels the others and the body.

    async def failing() -> None:
        await anyio.sleep(0)
        raise KeyError("child")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(failing)
            await anyio.sleep_forever()
    except* KeyError as errors:
        same(len(errors.exceptions), 1)
    await anyio.sleep(0)


@probe
async def move_on_after() -> None:
    # A scope ends silently at its deadline, however soon that is.
    for delay in (0.005, 0, -1):
        with anyio.move_on_after(delay) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
    with anyio.move_on_after(5) as scope:
        await anyio.sleep(0)
    assert not scope.cancelled_caught


@probe
async def fail_after() -> None:
    # A scope ends with an exception at its deadline.
    for delay in (0.005, 0):
        try:
            with anyio.fail_after(delay):
                await anyio.sleep_forever()
        except TimeoutError:
            continue
        raise AssertionError("it did not expire")
    with anyio.fail_after(5):
        await anyio.sleep(0.001)


@probe
async def scope_is_cancelled_at_once() -> None:
    # A cancelled scope ends at its first checkpoint.
    steps = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        steps.append("before")
        await anyio.lowlevel.checkpoint()
        steps.append("never")
    same((steps, scope.cancelled_caught), (["before"], True))
    await anyio.sleep(0.001)


@probe
async def scope_is_shielded() -> None:
    # A shield lets its inside end.
    steps = []
    with anyio.CancelScope() as outer:
        outer.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.001)
            steps.append("shielded")
        await anyio.sleep(0)
        steps.append("never")
    same(steps, ["shielded"])


@probe
async def nested_scopes() -> None:
    # The outer deadline passes through the inner scopes.
    with anyio.move_on_after(0.005) as outer, anyio.move_on_after(5) as inner:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
    same((outer.cancelled_caught, inner.cancelled_caught), (True, False))
    await anyio.sleep(0)


@probe
async def threads() -> None:
    """Work in a thread, which may call back."""

    def work() -> int:
        anyio.from_thread.run(anyio.sleep, 0.001)
        return anyio.from_thread.run_sync(threading.get_ident)

    same(await anyio.to_thread.run_sync(work), threading.get_ident())
    same(await anyio.to_thread.run_sync(sum, [1, 2]), 3)


@probe
async def events_and_streams() -> None:
    # A memory stream between two tasks, an event, a lock and a limiter.
    send, receive = anyio.create_memory_object_stream[int](1)
    event, lock, limiter = anyio.Event(), anyio.Lock(), anyio.CapacityLimiter(1)

    async def produce() -> None:
        async with send:
            for number in range(5):
                await send.send(number)
        await event.wait()
        async with lock, limiter:
            await anyio.sleep(0)

    async with anyio.create_task_group() as group, receive:
        group.start_soon(produce)
        same([number async for number in receive], list(range(5)))
        event.set()
        async with lock, limiter:
            await anyio.sleep(0)


@probe
async def task_is_known() -> None:
    # The current task is asyncio's, and has one identity.
    before = anyio.get_current_task()
    await anyio.sleep(0)
    same(anyio.get_current_task().id, before.id)
    assert before.id in [task.id for task in anyio.get_running_tasks()]


@probe
async def library_is_detected() -> None:
    """Both ways of asking which library runs say asyncio."""
    import sniffio

    same(sniffio.current_async_library(), "asyncio")
    same(anyio.get_current_task().name is not None, True)
    await anyio.lowlevel.checkpoint()
    same(sniffio.current_async_library(), "asyncio")


@probe
async def sockets_and_processes() -> None:
    # A listener with a client, and a process.
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def echo(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(await stream.receive())

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, echo)
        port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"hello")
            same(await stream.receive(), b"hello")
        group.cancel_scope.cancel()
    same((await anyio.run_process(["cat"], input=b"x")).stdout, b"x")
