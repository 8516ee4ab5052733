"""`receive` and `send` as other awaitables: in tasks, under timeouts, awaited late or never."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

from differential.programs.table import SENT, Receive, Scope, Send, outcome, program, respond, told

START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b'"ok"'}
EMPTY = {"type": "http.request", "body": b"", "more_body": False}


@program()
async def receive_gives_the_request(scope: Scope, receive: Receive, send: Send) -> Any:
    return await receive() == EMPTY


@program()
async def receive_waits_for_the_end(scope: Scope, receive: Receive, send: Send) -> Any:
    await receive()
    return await outcome(asyncio.wait_for(receive(), 0.001))


@program()
async def receive_in_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    first = asyncio.create_task(receive())  # type: ignore[arg-type]
    given = await first
    second = asyncio.create_task(receive())  # type: ignore[arg-type]
    await asyncio.sleep(0)
    seen = second.done()
    second.cancel()
    return [given == EMPTY, seen, await outcome(second)]


SEEN: dict[str, Any] = {}
"""What a request leaves for the next one of its program and stage."""


@program()
async def receive_after_the_response(scope: Scope, receive: Receive, send: Send) -> Any:
    await respond(send, json.dumps(SEEN.pop(scope["path"], None)).encode())
    SEEN[scope["path"]] = [(await receive())["type"], (await receive())["type"]]
    return SENT


@program()
async def receive_beside_a_group(scope: Scope, receive: Receive, send: Send) -> Any:
    """Listen as Starlette does while it streams."""
    log: list[Any] = []

    async def listen() -> None:
        try:
            while True:
                log.append((await receive())["type"])
        finally:
            log.append("stopped")

    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen())
        await asyncio.sleep(0.001)
        listening.cancel()
    return log


@program()
async def send_in_tasks(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.create_task(send(START))  # type: ignore[arg-type]
    await asyncio.create_task(send(BODY))  # type: ignore[arg-type]
    return SENT


@program()
async def send_is_a_coroutine(scope: Scope, receive: Receive, send: Send) -> Any:
    start = send(START)
    seen = [inspect.isawaitable(start), inspect.iscoroutine(start), asyncio.iscoroutine(start)]
    content = "".join("y" if each else "n" for each in seen)
    await start
    await send({**BODY, "body": f'"{content}"'.encode()})
    return SENT


@program()
async def receive_is_a_coroutine(scope: Scope, receive: Receive, send: Send) -> Any:
    given: Any = receive()
    seen = [inspect.isawaitable(given), inspect.iscoroutine(given), asyncio.iscoroutine(given)]
    await given
    functions = [inspect.iscoroutinefunction(each) for each in (receive, send)]
    return [seen, functions]


@program()
async def send_acts_when_awaited(scope: Scope, receive: Receive, send: Send) -> Any:
    dropped: Any = send({**START, "status": 201})
    getattr(dropped, "close", int)()
    await send(START)
    await send(BODY)
    return SENT


@program()
async def send_waits_its_turn_in_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    """Send in a task that has not begun, and so after what is sent now."""
    later = asyncio.create_task(send(BODY))  # type: ignore[arg-type]
    await send(START)
    await later
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


@program()
async def wrong_messages(scope: Scope, receive: Receive, send: Send) -> Any:
    async def tried(message: Any) -> bool:
        try:
            await send(message)
        except Exception:
            return False
        return True

    wrong: list[Any] = [{"type": "http.response.body", "body": b""}, {"type": "no.such"}]
    return [await tried(each) for each in wrong]


@program()
async def work_after_the_response(scope: Scope, receive: Receive, send: Send) -> Any:
    before = SEEN.get(scope["path"], 0)
    await respond(send, str(before).encode())
    SEEN[scope["path"]] = before + 1
    return SENT


@program()
async def errors_of_send_are_the_callers(scope: Scope, receive: Receive, send: Send) -> Any:
    try:
        await send({"type": "http.response.body", "body": b""})
    except Exception as error:
        return isinstance(error, (RuntimeError, AssertionError)) and bool(told(error)[1])
    return "nothing raised"
