"""An ASGI application as the server holds it: its lifespan, and what the core serves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from bolide import _core
from bolide.errors import ClientDisconnected, Error
from bolide.logs import logger

__all__ = ["AsgiApplication", "LifespanError"]

Message = MutableMapping[str, Any]
Callback = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Any]],
    Awaitable[None],
]

_VERSIONS: Final = {"version": "3.0", "spec_version": "2.0"}


class LifespanError(Error):
    """The application said that its startup or its shutdown failed."""


class AsgiApplication:
    """A callable of ASGI 3.

    One that raises when it is asked about its lifespan, or returns, has none: it is served without.
    """

    def __init__(self, app: Callback, *, root_path: str = "") -> None:
        self._app = app
        self._root_path = root_path
        self._state: dict[str, Any] = {}
        self._is_started = False
        self._task: asyncio.Task[None] | None = None
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message | None] = asyncio.Queue()

    def core(self) -> _core.AsgiApp:
        """Give what the core serves."""
        return _core.AsgiApp(
            self._app,
            as_coroutine=_as_coroutine,
            root_path=self._root_path,
            state=self._state,
            disconnected=ClientDisconnected,
        )

    async def startup(self) -> None:
        """Run the lifespan up to the end of the startup.

        Raises:
            LifespanError: the application says that it failed.
        """
        self._task = asyncio.create_task(self._run(), name="lifespan")
        answer = await self._ask("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise LifespanError(str(answer.get("message", "")) or "no reason given")
        self._is_started = answer is not None

    async def shutdown(self) -> None:
        """Run the rest of the lifespan.

        Raises:
            LifespanError: the application says that it failed.
        """
        if self._task is None or self._task.done():
            return
        answer = await self._ask("lifespan.shutdown")
        if answer is not None and answer["type"] == "lifespan.shutdown.failed":
            raise LifespanError(str(answer.get("message", "")) or "no reason given")
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _ask(self, kind: str) -> Message | None:
        """Send an event; give the answer, or None when the application has ended without one."""
        self._to_app.put_nowait({"type": kind})
        return await self._from_app.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(_VERSIONS), "state": self._state}
        try:
            await self._app(scope, self._to_app.get, self._take)
        except Exception as error:
            if self._is_started:
                logger.exception("the application's lifespan failed")
            else:
                logger.debug("the application has no lifespan: %r", error)
        finally:
            self._from_app.put_nowait(None)

    async def _take(self, message: Message) -> None:
        self._from_app.put_nowait(message)


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable
