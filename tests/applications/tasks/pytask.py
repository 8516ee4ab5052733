"""An application, or a debugger, has replaced asyncio's class of tasks by the one in Python."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from ask import Asked

asked = Asked()
app, asgi = asked.app, asked.asgi
PyTask: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
HOW = os.environ.get("TASKS_HOW", "replaced")

if sys.version_info >= (3, 14):
    # It keeps the current task of each class apart, so who replaces one has to replace the other.
    current_task = asyncio.tasks._py_current_task  # type: ignore[attr-defined]
    asyncio.current_task = asyncio.tasks.current_task = current_task
if HOW == "replaced":
    asyncio.Task = asyncio.tasks.Task = PyTask  # type: ignore[misc]


@asked.on_startup
def startup() -> None:
    """Set it as the factory, if it is not the class."""
    if HOW == "factory":
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **options: PyTask(coro, loop=loop, **options))


@asked
async def kind() -> str:
    """Report the class of the own task, at once."""
    return str(type(asyncio.current_task()) is PyTask)


@asked
async def kind_later() -> str:
    """Report it after suspensions."""
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return await kind()
