"""The loop: callbacks, timers, descriptors, debug mode, its exception handler."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import Any

from differential.programs.table import Receive, Scope, Send, outcome, program, shown


@program()
async def call_soon_order(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    loop.call_soon(log.append, "one")
    loop.call_soon(loop.call_soon, log.append, "three")
    loop.call_soon(log.append, "two")
    dropped = loop.call_soon(log.append, "cancelled")
    dropped.cancel()
    log.append("handler")
    await asyncio.sleep(0)
    seen = list(log)
    await asyncio.sleep(0)
    return [seen, log, dropped.cancelled()]


@program()
async def call_later_order(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    done = asyncio.Event()
    start = loop.time()
    loop.call_at(start + 0.06, done.set)
    loop.call_at(start + 0.04, log.append, "third")
    handle = loop.call_at(start + 0.03, log.append, "cancelled")
    handle.cancel()
    loop.call_at(start + 0.02, log.append, "second")
    loop.call_at(start - 1, log.append, "first")
    await done.wait()
    return [log, loop.time() > start, handle.cancelled()]


@program()
async def timers_are_not_early(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, seen = asyncio.get_running_loop(), []
    for delay_s in (0, 0.0005, 0.0011, 0.0029):
        start = loop.time()
        await asyncio.sleep(delay_s)
        # Loops may be early by the resolution of their clock.
        seen.append(loop.time() - start >= delay_s - 0.001)
    return seen


@program()
async def readers_and_writers(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    ours, other = socket.socketpair()
    both, roomy = asyncio.Event(), asyncio.Event()

    def writable() -> None:
        log.append("writable")
        roomy.set()

    def readable() -> None:
        log.append(ours.recv(10).decode())
        both.set()

    ours.setblocking(False)
    with ours, other:
        loop.add_writer(ours.fileno(), writable)
        await roomy.wait()
        seen = [log[:1], loop.remove_writer(ours.fileno()), loop.remove_writer(ours.fileno())]
        log.clear()
        loop.add_reader(ours.fileno(), log.append, "replaced")
        loop.add_reader(ours.fileno(), readable)
        other.send(b"hello")
        await both.wait()
        seen += [loop.remove_reader(ours.fileno()), loop.remove_reader(ours.fileno())]
        return [seen, log]


@program()
async def socket_methods(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        client.setblocking(False)
        accepting = asyncio.create_task(loop.sock_accept(listener))
        await loop.sock_connect(client, listener.getsockname())
        served, _ = await accepting
        with served:
            await loop.sock_sendall(client, b"x" * 1_000)
            buffer = bytearray(2_000)
            received = await loop.sock_recv_into(served, buffer)
            client.shutdown(socket.SHUT_WR)
            return [received, (await loop.sock_recv(served, 10)).decode()]


@program()
async def socket_closed_under_a_reader(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    for _ in range(2):
        ours, other = socket.socketpair()
        heard = asyncio.Event()
        loop.add_reader(ours.fileno(), heard.set)
        other.close()
        await heard.wait()
        log.append(loop.remove_reader(ours.fileno()))
        ours.close()
    return log


@program()
async def debug_mode(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    before, seen = loop.get_debug(), list[Any]()
    loop.set_debug(True)
    try:
        await asyncio.sleep(0)
        seen += [loop.get_debug(), loop.slow_callback_duration]
        seen.append(await asyncio.create_task(asyncio.sleep(0, "slept")))
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        seen.append(await asyncio.to_thread(call_from_a_thread, loop))
    finally:
        loop.set_debug(before)
    return [before, seen]


def call_from_a_thread(loop: asyncio.AbstractEventLoop) -> Any:
    """Call what only the loop's own thread may call."""
    try:
        loop.call_soon(print)
    except RuntimeError as error:
        return str(error)


@program()
async def exception_handler(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, contexts = asyncio.get_running_loop(), list[Any]()

    def fail() -> None:
        raise ValueError("in a callback")

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        contexts.append([shown(context.get("exception")), "handle" in context])

    before = loop.get_exception_handler()
    loop.set_exception_handler(handle)
    try:
        loop.call_soon(fail)
        await asyncio.sleep(0)
        loop.call_exception_handler({"message": "by hand"})
    finally:
        loop.set_exception_handler(before)
    return [before is None, contexts]


@program()
async def exception_never_retrieved(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, contexts = asyncio.get_running_loop(), list[Any]()

    async def fail() -> None:
        raise ValueError("nobody asks")

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        contexts.append([context["message"], shown(context.get("exception"))])

    loop.set_exception_handler(handle)
    try:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        seen = task.done()
        del task
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    return [seen, contexts]


@program()
async def pending_task_is_destroyed(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, contexts = asyncio.get_running_loop(), list[Any]()

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop.set_exception_handler(lambda _, context: contexts.append(context["message"]))
    try:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        del task
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    return contexts


@program()
async def future_callbacks(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, log = asyncio.get_running_loop(), list[Any]()
    future = loop.create_future()
    future.add_done_callback(lambda each: log.append(["callback", each.result()]))
    future.set_result("value")
    log.append("set")
    given = await future
    seen = list(log)
    await asyncio.sleep(0)
    return [given, seen, log, await outcome(set_again(future))]


async def set_again(future: asyncio.Future[Any]) -> None:
    """Set a result that is there."""
    future.set_result(1)


@program()
async def future_of_another_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    other = asyncio.new_event_loop()
    try:
        seen = await outcome(other.create_future())
    finally:
        other.close()
    return [seen[0], "attached to a different loop" in seen[1]]


@program()
async def names_are_resolved(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
    return [each[4] for each in found]


@program()
async def idle_loop_is_woken_by_data(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    ours, other = socket.socketpair()
    ours.setblocking(False)
    gate = threading.Event()

    def write() -> None:
        gate.wait(5)
        other.send(b"data")

    thread = threading.Thread(target=write)
    thread.start()
    with ours, other:
        loop.call_soon(gate.set)
        data = await asyncio.wait_for(loop.sock_recv(ours, 10), 5)
        thread.join()
        return data.decode()


@program()
async def asyncgen_hooks_and_policy(scope: Scope, receive: Receive, send: Send) -> Any:
    import sys

    hooks = sys.get_asyncgen_hooks()
    return [hooks.firstiter is not None, hooks.finalizer is not None]
