"""`receive` as other awaitables, in tasks and under timeouts; what follows a response."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

from differential.programs.table import SENT, Receive, Scope, Send, outcome, program, respond, shown

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
async def receive_is_a_coroutine(scope: Scope, receive: Receive, send: Send) -> Any:
    given: Any = receive()
    seen = [inspect.isawaitable(given), inspect.iscoroutine(given), asyncio.iscoroutine(given)]
    await given
    functions = [inspect.iscoroutinefunction(each) for each in (receive, send)]
    return [seen, functions]


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
        return isinstance(error, (RuntimeError, AssertionError)) and bool(shown(error)[1])
    return "nothing raised"
