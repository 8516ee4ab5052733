"""`send` as the coroutine that it is elsewhere: what it does when, and what becomes of it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import warnings
import weakref
from collections.abc import Awaitable
from typing import Any

from differential.programs.table import SENT, Receive, Scope, Send, outcome, program, respond, shown

START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b'"ok"'}
OTHER = {**START, "status": 201}
"""A start that must not be sent."""


async def end(send: Send, observed: Any) -> Any:
    """Send the content that follows a start."""
    await send({"type": "http.response.body", "body": json.dumps(observed).encode()})
    return SENT


@program()
async def send_acts_when_awaited(scope: Scope, receive: Receive, send: Send) -> Any:
    dropped: Any = send(OTHER)
    dropped.close()
    await send(START)
    await send(BODY)
    return SENT


@program()
async def send_acts_in_the_order_of_awaiting(scope: Scope, receive: Receive, send: Send) -> Any:
    last, first = send(BODY), send(START)
    await first
    await last
    return SENT


@program()
async def send_many_times_before_awaiting(scope: Scope, receive: Receive, send: Send) -> Any:
    """Hold more calls than any server keeps room for."""
    parts = [b"[", *(b"%d," % number for number in range(200)), b"0]"]
    messages: list[Any] = [{**BODY, "body": part, "more_body": True} for part in parts]
    calls = [send(START), *map(send, messages), send({**BODY, "body": b""})]
    assert len({id(call) for call in calls}) == len(calls)
    for call in calls:
        await call
    return SENT


@program()
async def send_waits_its_turn_in_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    """Send in a task that has not begun, and so after what is sent now."""
    later = asyncio.create_task(send(BODY))  # type: ignore[arg-type]
    await send(START)
    await later
    return SENT


@program()
async def send_in_tasks(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.create_task(send(START))  # type: ignore[arg-type]
    await asyncio.create_task(send(BODY))  # type: ignore[arg-type]
    return SENT


@program()
async def send_under_a_timeout(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.wait_for(send(START), 5)
    await asyncio.wait_for(send(BODY), 5)
    return SENT


@program()
async def send_gathered(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.gather(send(START), send(BODY))
    return SENT


@program()
async def send_shielded(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.shield(send(START))
    await asyncio.ensure_future(send(BODY))
    return SENT


@program()
async def send_in_a_group(scope: Scope, receive: Receive, send: Send) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(send(START))  # type: ignore[arg-type]
        group.create_task(send(BODY))  # type: ignore[arg-type]
    return SENT


@program()
async def send_from_a_thread(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()

    def run() -> None:
        for message in (START, BODY):
            call: Any = send(message)
            asyncio.run_coroutine_threadsafe(call, loop).result(timeout=5)

    await asyncio.to_thread(run)
    return SENT


@program()
async def send_in_a_cancelled_task(scope: Scope, receive: Receive, send: Send) -> Any:
    later = asyncio.create_task(send(OTHER))  # type: ignore[arg-type]
    later.cancel()
    seen = await outcome(later)
    await send(START)
    return await end(send, seen)


@program()
async def send_is_a_coroutine(scope: Scope, receive: Receive, send: Send) -> Any:
    start = send(START)
    seen = [inspect.isawaitable(start), inspect.iscoroutine(start), asyncio.iscoroutine(start)]
    content = "".join("y" if each else "n" for each in seen)
    await start
    await send({**BODY, "body": f'"{content}"'.encode()})
    return SENT


@program()
async def send_does_not_suspend(scope: Scope, receive: Receive, send: Send) -> Any:
    log: list[Any] = []
    asyncio.get_running_loop().call_soon(log.append, "turn")
    content = json.dumps(SEEN.pop(scope["path"], None)).encode()
    await send(START)
    seen = list(log)
    await send({**BODY, "body": content})
    SEEN[scope["path"]] = seen + log
    return SENT


SEEN: dict[str, Any] = {}
"""What a request leaves for the next one of its program and stage."""


@program()
async def send_awaited_twice(scope: Scope, receive: Receive, send: Send) -> Any:
    start: Any = send(START)
    gave = await start
    return await end(send, [gave, await outcome(start), start.close()])


@program()
async def send_stepped_by_hand(scope: Scope, receive: Receive, send: Send) -> Any:
    start: Any = send(START)
    try:
        start.send(None)
    except StopIteration as ended:
        return await end(send, ended.value)
    return await end(send, "suspended")


@program()
async def send_stepped_by_its_iterator(scope: Scope, receive: Receive, send: Send) -> Any:
    steps = send(START).__await__()
    seen = [iter(steps) is steps, [each for each in steps]]
    return await end(send, seen)


@program()
async def send_thrown_into(scope: Scope, receive: Receive, send: Send) -> Any:
    dropped: Any = send(OTHER)
    try:
        dropped.throw(ValueError("mine"))
    except ValueError as error:
        seen = shown(error)
    again = await outcome(dropped)
    await send(START)
    return await end(send, [seen, again])


@program()
async def send_closed(scope: Scope, receive: Receive, send: Send) -> Any:
    dropped: Any = send(OTHER)
    dropped.close()
    again = await outcome(dropped)
    await send(START)
    return await end(send, again)


@program()
async def send_dropped(scope: Scope, receive: Receive, send: Send) -> Any:
    seen = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            send(OTHER)
            seen.append(len(caught))
        closed: Any = send(OTHER)
        closed.close()
        del closed
        await send(START)
    return await end(send, [seen, [warned(each) for each in caught]])


def warned(warning: warnings.WarningMessage) -> Any:
    """Describe a warning."""
    is_here = warning.filename == __file__
    return [warning.category.__name__, is_here, "was never awaited" in str(warning.message)]


@program()
async def send_dropped_while_raising(scope: Scope, receive: Receive, send: Send) -> Any:
    """Let a call go while another exception is on its way."""

    def fail() -> None:
        call = send(OTHER)
        raise LookupError(str(call is None))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fail()
        except LookupError as error:
            seen = shown(error)
    await send(START)
    return await end(send, [seen, len(caught)])


class Message(dict[str, Any]):
    """A message that can be watched."""


@program()
async def send_holds_its_message(scope: Scope, receive: Receive, send: Send) -> Any:
    """Hold it until the call is awaited or closed, and no longer."""
    seen = []
    closed: Any = send(message := Message(OTHER))
    watched = weakref.ref(message)
    del message
    seen.append(watched() is None)
    closed.close()
    del closed  # CPython 3.12 and 3.13 keep the arguments of a closed coroutine until then
    seen.append(watched() is None)
    awaited = send(message := Message(START))
    watched = weakref.ref(message)
    del message
    await awaited
    seen.append(watched() is None)
    return await end(send, seen)


@program()
async def send_while_all_objects_are_held(scope: Scope, receive: Receive, send: Send) -> Any:
    """Hold what the garbage collector shows, in which there may be calls that are over."""
    await send(START)
    held = gc.get_objects()
    call: Any = send(OTHER)
    is_held = any(each is call for each in held)
    call.close()
    del held
    return await end(send, is_held)


@program()
async def send_reads_its_message_when_awaited(scope: Scope, receive: Receive, send: Send) -> Any:
    message = dict(OTHER)
    start = send(message)
    message["status"] = 200
    await start
    await send(BODY)
    return SENT


@program()
async def wrong_messages(scope: Scope, receive: Receive, send: Send) -> Any:
    async def tried(call: Awaitable[None]) -> bool:
        try:
            await call
        except Exception:
            return False
        return True

    wrong: list[Any] = [{"type": "http.response.body", "body": b""}, {"type": "no.such"}, {}, None]
    calls = [send(each) for each in wrong]
    return [await tried(each) for each in calls]


@program()
async def send_fails_in_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    wrong = asyncio.create_task(send({"type": "no.such"}))  # type: ignore[arg-type]
    await asyncio.wait([wrong])
    failed = wrong.exception() is not None
    await respond(send, json.dumps(failed).encode())
    return SENT
