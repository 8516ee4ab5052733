"""Handlers that fork a process which comes back from them, for the native interface."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from bolide import App

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


@app.get("/hello")
def hello(request: Any) -> str:
    """Respond."""
    return "hello"
