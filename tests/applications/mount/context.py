"""What a call sees of asyncio and of the calls before it, whatever its interface."""

import asyncio
import contextvars
from typing import Any

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")
seen: dict[str, Any] = {}


def context() -> str:
    """Say whether a loop or a task runs, and what was left by an earlier call; leave a trace."""
    try:
        task = asyncio.current_task()
        has = "task" if task is not None else "loop"
    except RuntimeError:
        has = "nothing"
    left = VARIABLE.get()
    VARIABLE.set("set")
    return f"{has} {left}\n"


def note(name: str) -> None:
    """Note how something ended."""
    seen[name] = context().split()[0]
