"""Context variables: who sees what a handler sets, and who must not."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import sys
import threading
from typing import Any

from differential.programs.table import Receive, Scope, Send, number, outcome, program, shown

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
at_import: contextvars.ContextVar[str] = contextvars.ContextVar("at_import", default="unset")
at_start: contextvars.ContextVar[str] = contextvars.ContextVar("at_start", default="unset")
at_import.set("set")
local = threading.local()


def started() -> None:
    """Set a variable in the lifespan."""
    at_start.set("set")


async def get() -> str:
    """Read the variable."""
    return variable.get()


@program()
async def variable_is_seen_below(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[Any] = [variable.get()]
    token = variable.set("own")
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: seen.append(f"soon {variable.get()}"))
    child = asyncio.create_task(get())
    variable.set("later")
    seen.append(await child)
    seen.append(await asyncio.to_thread(variable.get))
    seen.append(await loop.run_in_executor(None, variable.get))
    variable.reset(token)
    return [seen, variable.get()]


@program()
async def variable_does_not_leak(scope: Scope, receive: Receive, send: Send) -> Any:
    before = variable.get()
    variable.set("leaked")
    await asyncio.sleep(0)
    return [before, variable.get()]


@program()
async def variable_does_not_leak_without_a_suspension(
    scope: Scope, receive: Receive, send: Send
) -> Any:
    before = variable.get()
    variable.set("leaked")
    return before


@program(together=3)
async def variable_is_each_requests_own(scope: Scope, receive: Receive, send: Send) -> Any:
    seen = [variable.get()]
    variable.set(f"request {number(scope)}")
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(variable.get())
    return seen


@program()
async def variable_of_a_child_is_its_own(scope: Scope, receive: Receive, send: Send) -> Any:
    async def child() -> str:
        variable.set("child")
        await asyncio.sleep(0)
        return variable.get()

    variable.set("parent")
    seen = [await asyncio.create_task(child()), variable.get()]
    return [*seen, await child(), variable.get()]


@program()
async def variables_from_before_the_request(scope: Scope, receive: Receive, send: Send) -> Any:
    return [at_import.get(), at_start.get()]


@program()
async def context_of_its_own_for_a_task(scope: Scope, receive: Receive, send: Send) -> Any:
    context = contextvars.copy_context()
    context.run(variable.set, "given")
    seen = [await asyncio.create_task(get(), context=context), variable.get()]
    heard: list[str] = []
    asyncio.get_running_loop().call_soon(lambda: heard.append(variable.get()), context=context)
    await asyncio.sleep(0)
    return [seen, heard, context[variable]]


@program()
async def context_cannot_be_entered_twice(scope: Scope, receive: Receive, send: Send) -> Any:
    def enter(context: contextvars.Context) -> Any:
        try:
            context.run(context.run, print)
        except RuntimeError as error:
            return str(error).partition(":")[0]

    return enter(contextvars.copy_context())


@program()
async def token_of_another_context(scope: Scope, receive: Receive, send: Send) -> Any:
    token = variable.set("own")

    async def child() -> Any:
        try:
            variable.reset(token)
        except ValueError as error:
            return type(error).__name__

    refused = await asyncio.create_task(child())
    variable.reset(token)
    return [refused, variable.get(), token.old_value is contextvars.Token.MISSING]


@program(is_alone=True)  # requests that set variables without a suspension change it
async def context_of_the_task(scope: Scope, receive: Receive, send: Send) -> Any:
    variable.set("own")
    task = asyncio.current_task()
    context = getattr(task, "get_context", contextvars.copy_context)()
    seen = [context.get(variable)]
    await asyncio.sleep(0)
    variable.set("later")
    return [*seen, getattr(task, "get_context", contextvars.copy_context)().get(variable)]


@program()
async def decimal_context_does_not_leak(scope: Scope, receive: Receive, send: Send) -> Any:
    before = decimal.getcontext().prec
    decimal.getcontext().prec = 5
    await asyncio.sleep(0)
    third = str(decimal.Decimal(1) / 3)
    with decimal.localcontext() as context:
        context.prec = 3
        await asyncio.sleep(0)
        return [before, third, str(decimal.Decimal(1) / 3)]


@program()
async def generator_sees_its_consumers_context(scope: Scope, receive: Receive, send: Send) -> Any:
    async def numbers() -> Any:
        yield variable.get()
        variable.set("generator")
        await asyncio.sleep(0)
        yield variable.get()

    variable.set("consumer")
    return [[each async for each in numbers()], variable.get()]


@program(rounds=1)
async def thread_locals_stay(scope: Scope, receive: Receive, send: Send) -> Any:
    local.value = "kept"
    await asyncio.sleep(0)
    return [local.value, threading.current_thread() is threading.main_thread()]


@program()
async def no_exception_is_being_handled(scope: Scope, receive: Receive, send: Send) -> Any:
    def context() -> Any:
        try:
            raise ValueError
        except ValueError as error:
            return shown(error.__context__)

    seen: list[Any] = [sys.exc_info()[0] is None, context()]
    try:
        raise KeyError("handled")
    except KeyError:
        await asyncio.sleep(0)
        seen += [shown(sys.exc_info()[1]), context()]
        seen.append(await asyncio.create_task(nothing_handled()))
    return [*seen, sys.exc_info()[0] is None]


async def nothing_handled() -> bool:
    """Return whether an exception that another task handles is out of sight."""
    return sys.exc_info()[0] is None


@program()
async def variables_are_kept_by_a_callback(scope: Scope, receive: Receive, send: Send) -> Any:
    variable.set("registered")
    heard: list[str] = []
    task = asyncio.create_task(get())
    task.add_done_callback(lambda _: heard.append(variable.get()))
    variable.set("changed")
    await outcome(task)
    await asyncio.sleep(0)
    return heard
