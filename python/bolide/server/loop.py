"""Creates the event loop of a worker: asyncio's on the server's reactor, or uvloop beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, cast

from bolide import _core
from bolide.errors import ConfigError
from bolide.server.logs import logger


class TaskSettings(asyncio.AbstractEventLoop):
    """Reports to the server when the application asks for tasks that the server cannot lend."""

    _tasks_changed: Callable[[], None]

    def set_task_factory(self, factory: Any) -> None:
        """As in asyncio; the next request has a task of the factory."""
        super().set_task_factory(factory)
        self._tasks_changed()

    def set_debug(self, enabled: bool) -> None:
        """As in asyncio; the next request has a task that the debug mode watches."""
        super().set_debug(enabled)
        self._tasks_changed()


class Persistent(asyncio.AbstractEventLoop):
    """Goes on after an iteration for which there was no memory, instead of ending the worker.

    asyncio reports what a callback raises; if there is no memory for that either, `run_forever`
    raises it.
    """

    _is_stopped = False

    def run_forever(self) -> None:
        """As in asyncio, also while memory is short."""
        try:
            while True:
                try:
                    return super().run_forever()
                except MemoryError:
                    if self._is_stopped:
                        return
                    with suppress(MemoryError):
                        logger.error("there was no memory for an iteration of the event loop")
        finally:
            self._is_stopped = False

    def stop(self) -> None:
        """As in asyncio."""
        self._is_stopped = True
        super().stop()


class ReactorEventLoop(Persistent, TaskSettings, asyncio.SelectorEventLoop):
    """asyncio's loop in the server's reactor, which lends tasks unless others are requested."""

    def __init__(self, server: _core.Server) -> None:
        self._tasks_changed = server.tasks_changed
        selector = _core.selector(server)
        super().__init__(selector)
        # What `call_soon_threadsafe` calls: asyncio's own writes to a socket, which costs more.
        self._write_to_self = cast("_core.Selector", selector).wake


def choose(name: str) -> str:
    """Resolve "auto", and import what the loop needs, so that all workers share it in memory.

    Raises:
        ConfigError: uvloop was requested and is not installed.
    """
    if name == "auto":
        # Applications with input and output of their own take less time on it (bench: loops).
        name = "uvloop" if find_spec("uvloop") else "asyncio"
    if name == "uvloop":
        _uvloop()
    return name


def new(name: str, server: _core.Server) -> asyncio.AbstractEventLoop:
    """Create the loop that `choose` returned."""
    if has_own_selector(name):
        return ReactorEventLoop(server)
    uvloop = _uvloop()

    class Loop(Persistent, TaskSettings, uvloop):  # type: ignore[valid-type, misc]
        __module__ = uvloop.__module__  # libraries recognise uvloop by it
        __qualname__ = uvloop.__qualname__
        _tasks_changed = staticmethod(server.tasks_changed)

    return Loop()


def has_own_selector(name: str) -> bool:
    """Return whether the loop waits in the reactor; otherwise it watches its descriptor."""
    return name == "asyncio"


def _uvloop() -> type[asyncio.AbstractEventLoop]:
    try:
        from uvloop import Loop
    except ImportError:
        raise ConfigError(
            "loop: uvloop is not installed; pip install 'bolide[uvloop]' or leave the option out"
        ) from None
    return cast("type[asyncio.AbstractEventLoop]", Loop)
