"""Exceptions that leave a handler, and how the server goes on after them."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from differential.programs.table import SENT, Receive, Scope, Send, outcome, program, shown


class Odd(BaseException):
    """What is no Exception."""


@program()
async def exception(scope: Scope, receive: Receive, send: Send) -> Any:
    raise ValueError("before the response")


@program()
async def exception_without_text(scope: Scope, receive: Receive, send: Send) -> Any:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise ValueError

    raise BrokenError


@program()
async def base_exception(scope: Scope, receive: Receive, send: Send) -> Any:
    raise Odd


@program()
async def exception_group(scope: Scope, receive: Receive, send: Send) -> Any:
    async with asyncio.TaskGroup():
        raise BaseExceptionGroup("group", [ValueError(), Odd()])


@program()
async def stop_iteration(scope: Scope, receive: Receive, send: Send) -> Any:
    raise StopIteration("value")


@program()
async def stop_async_iteration(scope: Scope, receive: Receive, send: Send) -> Any:
    raise StopAsyncIteration


@program()
async def generator_exit(scope: Scope, receive: Receive, send: Send) -> Any:
    raise GeneratorExit


@program()
async def recursion_without_end(scope: Scope, receive: Receive, send: Send) -> Any:
    async def deeper() -> None:
        await deeper()

    await deeper()


@program()
async def recursion_error_is_caught(scope: Scope, receive: Receive, send: Send) -> Any:
    def deeper(left: int) -> int:
        return 1 + deeper(left - 1) if left else 0

    def limited(depth: int) -> Any:
        try:
            return deeper(depth)
        except RecursionError as error:
            return type(error).__name__

    nested = "[" * 100_000
    try:
        json.loads(nested)
    except RecursionError as error:
        seen = type(error).__name__
    return [limited(900), limited(sys.getrecursionlimit()), seen, limited(900)]


@program()
async def exception_in_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    async def fails(error: BaseException) -> None:
        await asyncio.sleep(0)
        raise error

    errors = (ValueError("task"), Odd("odd"), StopAsyncIteration())
    return [await outcome(asyncio.create_task(fails(each))) for each in errors]


@program()
async def exception_after_the_start(scope: Scope, receive: Receive, send: Send) -> Any:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"part", "more_body": True})
    await asyncio.sleep(0)
    raise ValueError("after a part")


@program(rounds=1)
async def exception_after_the_response(scope: Scope, receive: Receive, send: Send) -> Any:
    fields = [(b"content-length", b"6")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b'"done"'})
    raise ValueError("after the response")


@program()
async def no_response(scope: Scope, receive: Receive, send: Send) -> Any:
    return SENT


EXITS: dict[str, int] = {}
"""How often a request of a program and stage wanted to leave."""


@program()
async def system_exit(scope: Scope, receive: Receive, send: Send) -> Any:
    """Fail alone: the process, and what it keeps, go on."""
    EXITS[scope["path"]] = EXITS.get(scope["path"], 0) + 1
    if EXITS[scope["path"]] < 3:
        sys.exit(3)
    return EXITS[scope["path"]]


@program(is_alone=True, rounds=1)
async def keyboard_interrupt(scope: Scope, receive: Receive, send: Send) -> Any:
    raise KeyboardInterrupt


@program()
async def exit_that_is_caught(scope: Scope, receive: Receive, send: Send) -> Any:
    def leave(error: type[BaseException]) -> Any:
        try:
            raise error(3)
        except BaseException as caught:
            return shown(caught)

    return [leave(SystemExit), leave(KeyboardInterrupt)]


@program()
async def unraisable(scope: Scope, receive: Receive, send: Send) -> Any:
    heard: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda each: heard.append(shown(each.exc_value))

    class Fails:
        def __del__(self) -> None:
            raise ValueError("in a finalizer")

    try:
        thing: Any = Fails()
        del thing
    finally:
        sys.unraisablehook = before
    return heard
