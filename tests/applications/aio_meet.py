"""Handlers that meet: one waits for what another does, cancels it, or follows it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import Any

from bolide import App, HTTPError, Request

app = App()
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")
waiting: dict[str, asyncio.Task[Any]] = {}
seen: dict[str, Any] = {"running": 0, "most": 0, "order": []}


@app.on_startup
async def startup() -> None:
    """Make what handlers meet at, on the loop."""
    app.state.event = asyncio.Event()
    app.state.lock = asyncio.Lock()
    app.state.queue = asyncio.Queue()
    app.state.condition = asyncio.Condition()
    app.state.gates = {}


@app.get("/event/wait")
async def event_wait(request: Request) -> str:
    """Wait for the event."""
    await app.state.event.wait()
    app.state.event.clear()
    return "set"


@app.get("/event/set")
async def event_set(request: Request) -> str:
    """Set the event, in a first step."""
    app.state.event.set()
    return "ok"


@app.get("/event/set-by-def")
def event_set_by_def(request: Request) -> str:
    """Set the event where there is no task at all."""
    app.state.event.set()
    return "ok"


@app.get("/queue/wait")
async def queue_wait(request: Request) -> str:
    """Wait for an item."""
    return str(await app.state.queue.get())


@app.get("/queue/set")
async def queue_set(request: Request) -> str:
    """Put an item."""
    await app.state.queue.put("set")
    return "ok"


@app.get("/condition/wait")
async def condition_wait(request: Request) -> str:
    """Wait for a notification."""
    async with app.state.condition:
        await app.state.condition.wait()
    return "set"


@app.get("/condition/set")
async def condition_set(request: Request) -> str:
    """Notify one."""
    async with app.state.condition:
        app.state.condition.notify()
    return "ok"


@app.get("/lock/wait")
async def lock_wait(request: Request) -> str:
    """Hold the lock until the event is set."""
    async with app.state.lock:
        await app.state.event.wait()
        app.state.event.clear()
    return "set"


@app.get("/lock/set")
async def lock_set(request: Request) -> str:
    """Set the event, and then wait for the lock that its waiter holds."""
    app.state.event.set()
    async with app.state.lock:
        return "ok"


@app.get("/hold/{name}")
async def hold(request: Request, name: str) -> str:
    """Wait until it is released or cancelled."""
    task = asyncio.current_task()
    assert task is not None
    waiting[name] = task
    app.state.gates[name] = gate = asyncio.Event()
    try:
        await gate.wait()
    finally:
        del waiting[name]
    assert asyncio.current_task() is task
    return name


@app.get("/hold-on/{name}")
async def hold_on(request: Request, name: str) -> str:
    # The same, but say so when it is cancelled, and respond.
    try:
        return await hold(request, name)
    except asyncio.CancelledError:
        return "not me"


@app.get("/release/{name}")
async def release(request: Request, name: str) -> str:
    """Release one that waits."""
    app.state.gates[name].set()
    return "ok"


@app.get("/cancel/{name}")
async def cancel(request: Request, name: str) -> str:
    """Cancel one that waits."""
    return str(waiting[name].cancel())


@app.get("/cancel-by-def/{name}")
def cancel_by_def(request: Request, name: str) -> str:
    """Cancel one that waits, where there is no task."""
    return str(waiting[name].cancel())


@app.get("/waiting")
def show_waiting(request: Request) -> dict[str, Any]:
    """Report which wait, and how many tasks they have."""
    return {"names": sorted(waiting), "tasks": len(set(waiting.values()))}


@app.get("/task")
async def has_task(request: Request) -> list[bool]:
    """Return whether there is a task here."""
    return [asyncio.current_task() is not None]


@app.get("/no-task")
def has_no_task(request: Request) -> list[bool]:
    """Return whether there is a task here, though there must not be."""
    return [asyncio.current_task() is not None]


@app.get("/variable")
def variable(request: Request) -> str:
    """Report what is set."""
    return VARIABLE.get()


@app.get("/variable/async")
async def variable_async(request: Request) -> str:
    """Report what is set."""
    return VARIABLE.get()


@app.get("/variable/set/def")
def set_variable_by_def(request: Request) -> str:
    """Set it where there is no task, and never take it back."""
    VARIABLE.set("set by a handler")
    return VARIABLE.get()


@app.get("/variable/stream/{how}")
def stream_variable(request: Request, how: str) -> Any:
    """Set it in the handler or in the first part, and report it in the second."""
    if how == "handler":
        VARIABLE.set("set by a handler")

    def parts() -> Iterator[str]:
        if how == "part":
            VARIABLE.set("set by a handler")
        yield ""
        yield VARIABLE.get()

    return parts()


@app.get("/variable/set/{how}")
async def set_variable(request: Request, how: str) -> str:
    """Set it and never take it back."""
    if how == "later":
        await asyncio.sleep(0)
    VARIABLE.set("set by a handler")
    return VARIABLE.get()


@app.get("/variable/set-and-raise/{how}/{handled}")
async def set_and_raise(request: Request, how: str, handled: str) -> None:
    """Set it for the error handler."""
    await set_variable(request, how)
    raise KeyError if handled == "def" else LookupError


@app.error_handler(KeyError)
def failed(request: Request, error: KeyError) -> str:
    """Report what is set."""
    return VARIABLE.get()


@app.error_handler(LookupError)
async def failed_async(request: Request, error: LookupError) -> str:
    """Report what is set, after a suspension too."""
    before = VARIABLE.get()
    await asyncio.sleep(0)
    assert VARIABLE.get() == before
    return before


@app.get("/turns/{turns:int}")
async def take_turns(request: Request, turns: int) -> str:
    """Give way so many times, and count how many do so at the same time."""
    seen["running"] += 1
    seen["most"] = max(seen["most"], seen["running"])
    for _ in range(turns):
        await asyncio.sleep(0)
    seen["running"] -= 1
    return str(turns)


@app.get("/most")
def most(request: Request) -> str:
    """Report how many there were at the same time, and begin anew."""
    text, seen["most"] = str(seen["most"]), 0
    return text


@app.get("/ordered/{name}")
async def ordered(request: Request, name: str) -> str:
    """Keep when it began and ended."""
    seen["order"].append(f"{name} began")
    await hold(request, name)
    seen["order"].append(f"{name} ended")
    return name


@app.post("/ordered/{name}")
async def ordered_post(request: Request, name: str) -> str:
    """Keep when it began."""
    seen["order"].append(f"{name} began")
    return name


@app.get("/order")
def order(request: Request) -> list[str]:
    """Report what happened, and begin anew."""
    text, seen["order"] = seen["order"], []
    return text


class Odd(BaseException):
    """Neither an Exception nor anything that asyncio knows."""


@app.get("/odd/{how}")
async def odd(request: Request, how: str) -> None:
    """Raise something that nobody catches."""
    if how == "later":
        await asyncio.sleep(0)
    raise Odd(how)


@app.get("/http-error")
async def http_error(request: Request) -> None:
    """Choose a response after a suspension."""
    await asyncio.sleep(0)
    raise HTTPError(418)
