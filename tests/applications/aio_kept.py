"""Leaves traces on the task of a handler, and reports whether any of another request is there."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

from bolide import App, Request

app = App()
Task = asyncio.Task[Any]

registry: weakref.WeakKeyDictionary[Task, str] = weakref.WeakKeyDictionary()
kept: list[Any] = []
ended: list[bool] = []


def keep_name(task: Task) -> None:
    """Name the task, and keep the name that it had."""
    kept.append(task.get_name())
    task.set_name("named")


WAYS: dict[str, Callable[[Task], object]] = {
    "reference": kept.append,
    "weak_reference": lambda task: kept.append(weakref.ref(task)),
    "weak_callback": lambda task: kept.append(weakref.ref(task, lambda _: None)),
    "registry": lambda task: registry.setdefault(task, "kept"),
    "callback": lambda task: task.add_done_callback(lambda task: ended.append(task.done())),
    "name": keep_name,
    "attribute": lambda task: setattr(task, "mark", "kept"),
    "cancel": lambda task: task.cancel(),
    "cancel_and_uncancel": lambda task: (task.cancel(), task.uncancel()),
    "coroutine": lambda task: kept.append(task.get_coro()),
}


def own_task() -> Task:
    """Return the handler's task."""
    task = asyncio.current_task()
    assert task is not None
    return task


def traces(task: Task) -> list[str]:
    """List what another request left on a task."""
    found = {
        "reference": any(each is task for each in kept),
        "weak_reference": any(isinstance(each, weakref.ref) and each() is task for each in kept),
        "registry": task in registry,
        "callback": bool(task._callbacks),
        "name": task.get_name() == "named",
        "attribute": hasattr(task, "mark"),
        "cancel": bool(task.cancelling() or task._must_cancel),
        "coroutine": any(each is task.get_coro() for each in kept),
    }
    return [name for name, is_there in found.items() if is_there]


@app.get("/first/{way}")
async def first(request: Request, way: str) -> list[str]:
    """Report what is there, and leave something, without a suspension."""
    task = own_task()
    found = traces(task)
    WAYS[way](task)
    return found


@app.get("/later/{way}")
async def later(request: Request, way: str) -> list[str]:
    """Do it after a suspension."""
    await asyncio.sleep(0)
    return await first(request, way)


def leaving(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a coroutine function in a plain one, which leaves something and calls nothing."""

    @functools.wraps(handler)
    def wrapper(request: Request, way: str) -> str:
        task = asyncio.current_task()
        found = [] if task is None else traces(task)
        if task is not None:
            WAYS[way](task)
        return json.dumps(found)

    return wrapper


@app.get("/wrapped/{way}")
@leaving
async def wrapped(request: Request, way: str) -> None:
    """Leave it to the wrapper."""


@app.get("/raises/{way}")
async def raises(request: Request, way: str) -> None:
    """Leave it to the error handler."""
    raise KeyError(way)


@app.get("/raises-later/{way}")
async def raises_later(request: Request, way: str) -> None:
    """Leave it to the error handler, after a suspension."""
    await asyncio.sleep(0)
    raise KeyError(way)


@app.error_handler(KeyError)
def failed(request: Request, error: KeyError) -> list[str]:
    """Report what is there, and leave something, in the task of a failed handler, if any."""
    task = asyncio.current_task()
    if task is None:
        return []
    found = traces(task)
    WAYS[error.args[0]](task)
    return found


@app.get("/traces")
async def look(request: Request) -> list[str]:
    """Report what is there."""
    return traces(own_task())


@app.get("/ended")
def show_ended(request: Request) -> list[bool]:
    """Report which callbacks were called, and whether their task was done."""
    return ended


@app.get("/quick")
async def quick(request: Request) -> str:
    """Respond without a suspension."""
    return "ok"


@app.get("/gives-way")
async def gives_way(request: Request) -> str:
    """Respond after a suspension."""
    await asyncio.sleep(0)
    return "ok"


@app.get("/streams")
async def streams(request: Request) -> Any:
    """Respond part by part."""

    async def parts() -> Any:
        for part in ("a", "b"):
            yield part
            await asyncio.sleep(0)

    return parts()


@app.get("/fails")
async def fails(request: Request) -> str:
    """Respond through an error handler that has its own suspension."""
    await asyncio.sleep(0)
    raise LookupError("fails")


@app.error_handler(LookupError)
async def failed_later(request: Request, error: LookupError) -> str:
    """Respond after a suspension."""
    await asyncio.sleep(0)
    return "ok"


@app.post("/reads")
async def reads(request: Request) -> str:
    """Respond when the content is there."""
    return str(len(await request.body()))


@app.get("/census")
async def census(request: Request) -> dict[str, int]:
    """Count what there is."""
    gc.collect()
    return {"objects": len(gc.get_objects()), "tasks": len(asyncio.all_tasks())}
