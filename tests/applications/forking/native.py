"""Handlers that fork a process which comes back from them, for the native interface."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from bolide import App, Response, TestClient

app = App()


def fork(how: str) -> str:
    """Fork; the child returns or raises, the parent returns the child's exit code."""
    child = os.fork()
    if child:
        return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if how == "exits":
        raise SystemExit(7)
    if how == "raises":
        raise ValueError("of the child")
    return "of the child"


@app.get("/plain/{how}")
def plain(request: Any, how: str) -> str:
    """Fork in a plain function."""
    return fork(how)


@app.get("/first/{how}")
async def first(request: Any, how: str) -> str:
    """Fork in a coroutine's first step."""
    return fork(how)


@app.get("/later/{how}")
async def later(request: Any, how: str) -> str:
    """Fork after a suspension."""
    await asyncio.sleep(0)
    return fork(how)


@app.get("/part/{how}")
def part(request: Any, how: str) -> Iterator[str]:
    """Fork in a generator whose parts are the response."""
    yield fork(how)


def raise_and_catch(results: Connection) -> None:
    """Catch what the framework raises."""
    try:
        Response(json=object())
    except TypeError:
        results.send("caught")


def serve_another(results: Connection) -> None:
    """Serve an application of its own."""
    other = App()

    @other.get("/")
    async def root(request: Any) -> str:
        await asyncio.sleep(0)
        return "served"

    with TestClient(other) as client:
        results.send(client.get("/").text)


@app.get("/child/{name}")
def child(request: Any, name: str) -> str:
    """Run a function in a process that does not come back; return its result and exit code."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    work = {"raise_and_catch": raise_and_catch, "serve_another": serve_another}[name]
    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError:
        result = "nothing"
    process.join()
    return f"{result} {process.exitcode}"


def wait_for_ever() -> None:
    """Wait."""
    time.sleep(60)


def terminate() -> str:
    """Start a process and end it by TERM; return its exit code."""
    process = multiprocessing.get_context("fork").Process(target=wait_for_ever)
    process.start()
    process.terminate()
    process.join(5)
    code = process.exitcode
    process.kill()
    process.join()
    return str(code)


@app.get("/terminated")
def terminated(request: Any) -> str:
    """Terminate a process from the loop's thread."""
    return terminate()


@app.get("/terminated-by-a-thread")
async def terminated_by_a_thread(request: Any) -> str:
    """Terminate a process that another thread forks."""
    return await asyncio.to_thread(terminate)


@app.get("/pool")
def pool(request: Any) -> str:
    """Use a pool of processes, which ends them by TERM."""
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return str(workers.map(abs, [-1, -2]))


@app.get("/orphan")
def orphan(request: Any) -> str:
    """Start a process that ends after its parent has; return its id."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        if (orphan := os.fork()) == 0:
            os.close(ours)
            os._exit(0)
        os.write(theirs, b"%d" % orphan)
        os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with open(ours) as stream:
        return stream.read()


@app.get("/hello")
def hello(request: Any) -> str:
    """Respond."""
    return "hello"
