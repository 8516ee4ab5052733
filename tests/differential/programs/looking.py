"""Introspection: what a task reports about itself and others, and what stays when it has ended."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import io
import socket
import sys
import traceback
import weakref
from typing import Any

from differential.programs.table import Receive, Scope, Send, number, outcome, program


def own() -> asyncio.Task[Any]:
    """Return the task of the request."""
    task = asyncio.current_task()
    assert task is not None
    return task


@program()
async def current_task(scope: Scope, receive: Receive, send: Send) -> Any:
    task, loop = own(), asyncio.get_running_loop()
    seen = [isinstance(task, asyncio.Task), task.get_loop() is loop, task.done(), task.cancelled()]
    await asyncio.sleep(0)
    return [*seen, own() is task, asyncio.current_task(loop) is task]


@program()
async def task_is_in_all_tasks(scope: Scope, receive: Receive, send: Send) -> Any:
    seen = [own() in asyncio.all_tasks()]
    await asyncio.sleep(0)
    return [*seen, own() in asyncio.all_tasks()]


@program(together=2)
async def tasks_have_names_of_their_own(scope: Scope, receive: Receive, send: Send) -> Any:
    NAMES.append(own().get_name())
    while len(NAMES) % 2:
        await asyncio.sleep(0)
    return len(NAMES) == len(set(NAMES))


NAMES: list[str] = []


@program()
async def name_does_not_leak(scope: Scope, receive: Receive, send: Send) -> Any:
    before = own().get_name()
    own().set_name("leaked")
    seen = [before == "leaked", own().get_name()]
    await asyncio.sleep(0)
    return [*seen, own().get_name()]


@program()
async def name_is_a_default_one(scope: Scope, receive: Receive, send: Send) -> Any:
    return own().get_name().startswith("Task-")


@program()
async def name_without_a_suspension(scope: Scope, receive: Receive, send: Send) -> Any:
    before = own().get_name()
    own().set_name("leaked")
    return before == "leaked"


@program()
async def attribute_does_not_leak(scope: Scope, receive: Receive, send: Send) -> Any:
    task: Any = own()
    seen = hasattr(task, "mark")
    task.mark = "leaked"
    return seen


STATE: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


@program()
async def state_by_task_does_not_leak(scope: Scope, receive: Receive, send: Send) -> Any:
    before = STATE.get(own())
    STATE[own()] = "leaked"
    return before


KEPT: dict[str, Any] = {}
"""What a request keeps for the next one of its program and stage."""


@program()
async def kept_task_has_ended(scope: Scope, receive: Receive, send: Send) -> Any:
    before, KEPT[scope["path"]] = KEPT.get(scope["path"]), own()
    if before is None:
        return "nothing before"
    again = before is own()
    result = await outcome(before)
    return [again, before.done(), before.cancelled(), result, before in asyncio.all_tasks()]


@program()
async def task_of_the_last_request_is_freed(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.sleep(0.001)
    gc.collect()
    before = KEPT[scope["path"]]() if scope["path"] in KEPT else None
    KEPT[scope["path"]] = weakref.ref(own())
    return before is None


@program()
async def objects_of_the_last_request_are_freed(scope: Scope, receive: Receive, send: Send) -> Any:
    class Mine:
        pass

    mine = Mine()
    before = KEPT[scope["path"]]() if scope["path"] in KEPT else None
    KEPT[scope["path"]] = weakref.ref(mine)
    await asyncio.sleep(0)
    return [before is None, mine is KEPT[scope["path"]]()]


@program()
async def done_callback_is_called(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.sleep(0.001)
    before = KEPT.pop(scope["path"], None)

    def called(task: asyncio.Task[Any]) -> None:
        KEPT[scope["path"]] = [task.done(), task.cancelled(), repr(task.exception())]

    own().add_done_callback(called)
    return before


@program()
async def done_callback_that_is_removed(scope: Scope, receive: Receive, send: Send) -> Any:
    def called(task: asyncio.Task[Any]) -> None:
        KEPT[scope["path"]] = True

    own().add_done_callback(called)
    return [own().remove_done_callback(called), KEPT.get(scope["path"])]


@program()
async def coroutine_of_the_task(scope: Scope, receive: Receive, send: Send) -> Any:
    coroutine: Any = own().get_coro()
    seen = [asyncio.iscoroutine(coroutine), inspect.isawaitable(coroutine)]
    return [*seen, inspect.iscoroutine(coroutine), bool(coroutine.__qualname__)]


@program()
async def coroutine_state_of_the_task(scope: Scope, receive: Receive, send: Send) -> Any:
    names = ("cr_frame", "cr_running", "cr_await", "cr_code")
    coroutine = own().get_coro()
    return [name for name in names if hasattr(coroutine, name)]


@program()
async def stack_of_the_own_task(scope: Scope, receive: Receive, send: Send) -> Any:
    names = [frame.f_code.co_name for frame in own().get_stack()]
    out = io.StringIO()
    own().print_stack(file=out)
    await asyncio.sleep(0)
    return [bool(names), "most recent call last" in out.getvalue()]


@program(together=2)
async def stack_of_a_suspended_request(scope: Scope, receive: Receive, send: Send) -> Any:
    if number(scope) == 0:
        KEPT["watched"] = own()
        while "watched" in KEPT:
            await asyncio.sleep(0.001)
        return "watched"
    while "watched" not in KEPT:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    watched, out = KEPT["watched"], io.StringIO()
    watched.print_stack(file=out)
    del KEPT["watched"]
    return [len(watched.get_stack()), "most recent call last" in out.getvalue()]


@program(together=2)
async def awaited_chain_of_a_suspended_request(scope: Scope, receive: Receive, send: Send) -> Any:
    if number(scope) == 0:
        KEPT["chained"] = own()
        while "chained" in KEPT:
            await asyncio.sleep(0.001)
        return "watched"
    while "chained" not in KEPT:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    coroutine, names = KEPT.pop("chained").get_coro(), []
    while coroutine is not None:
        names.append(getattr(coroutine, "__name__", type(coroutine).__name__))
        coroutine = getattr(coroutine, "cr_await", None)
    return [name for name in names if name in ("awaited_chain_of_a_suspended_request", "sleep")]


def on_the_way(graph: Any) -> list[str]:
    """Name the functions of a call graph, of CPython 3.14, without the server's."""
    names = [entry.frame.f_code.co_name for entry in graph.call_stack]
    return [name for name in names if name.startswith("call_graph") or name == "sleep"]


@program()
async def call_graph_of_the_own_task(scope: Scope, receive: Receive, send: Send) -> Any:
    if not hasattr(asyncio, "capture_call_graph"):
        return "Python 3.14"
    seen, task = [], own()

    async def call_graph_of_a_child() -> None:
        graph: Any = asyncio.capture_call_graph()
        seen.append([on_the_way(graph), [each.future is task for each in graph.awaited_by]])

    for _ in range(2):
        graph: Any = asyncio.capture_call_graph()
        seen.append([on_the_way(graph), graph.future is task, len(graph.awaited_by)])
        await asyncio.create_task(call_graph_of_a_child())
    return seen


@program(together=2)
async def call_graph_of_a_suspended_request(scope: Scope, receive: Receive, send: Send) -> Any:
    if not hasattr(asyncio, "capture_call_graph"):
        return "Python 3.14"
    if number(scope) == 0:
        KEPT["graphed"] = own()
        while "graphed" in KEPT:
            await asyncio.sleep(0.001)
        return "watched"
    while "graphed" not in KEPT:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    graph: Any = asyncio.capture_call_graph(KEPT.pop("graphed"))
    return on_the_way(graph)


@program()
async def representation(scope: Scope, receive: Receive, send: Send) -> Any:
    text = repr(own())
    await asyncio.sleep(0)
    return ["pending" in text, "pending" in repr(own()), text.startswith("<Task ")]


@program()
async def stack_of_the_handler(scope: Scope, receive: Receive, send: Send) -> Any:
    names = [frame.name for frame in traceback.extract_stack()]
    try:
        raise ValueError
    except ValueError as error:
        raised = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return [names[-2:], raised]


@program()
async def handler_can_be_traced(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[str] = []

    def called() -> None:
        return None

    sys.setprofile(lambda frame, event, _: seen.append(f"{event} {frame.f_code.co_name}"))
    try:
        called()
    finally:
        sys.setprofile(None)
    return seen[:2]


@program()
async def only_the_own_task_is_added(scope: Scope, receive: Receive, send: Send) -> Any:
    before = asyncio.all_tasks() | {own()}
    children = [asyncio.create_task(asyncio.sleep(0)) for _ in range(2)]
    seen = asyncio.all_tasks() - before == set(children)
    await asyncio.gather(*children)
    await asyncio.sleep(0)
    return [seen, bool(asyncio.all_tasks() & set(children))]


@program()
async def no_task_is_current_in_callbacks(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, seen = asyncio.get_running_loop(), list[Any]()
    ours, other = socket.socketpair()
    heard = asyncio.Event()

    def look(what: str, *_: Any) -> None:
        seen.append([what, asyncio.current_task() is None])
        if what == "reader":
            loop.remove_reader(ours)
            heard.set()

    with ours, other:
        loop.call_soon(look, "soon")
        loop.add_reader(ours, look, "reader")
        child = asyncio.create_task(asyncio.sleep(0))
        child.add_done_callback(functools.partial(look, "done"))
        await child
        other.send(b"data")
        await heard.wait()
    return seen


@program()
async def waiting_task_is_shown_as_such(scope: Scope, receive: Receive, send: Send) -> Any:
    task, future = own(), asyncio.get_running_loop().create_future()
    seen = ["wait_for" in repr(task)]

    async def look() -> None:
        seen.append("wait_for=<Future" in repr(task))
        future.set_result(None)

    child = asyncio.create_task(look())
    await future
    await child
    return seen


@program()
async def finished_request_is_shown_as_such(scope: Scope, receive: Receive, send: Send) -> Any:
    before, KEPT[scope["path"]] = KEPT.get(scope["path"]), own()
    if before is None:
        return "nothing before"
    await asyncio.sleep(0.001)
    return [before.done(), "finished" in repr(before), before.get_stack(), before.cancel()]
