"""An ASGI application: its lifespan, and what the core serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from bolide import _core
from bolide.errors import ClientDisconnected, Error

__all__ = ["AsgiApplication", "LifespanError", "is_cancellation"]

logger = logging.getLogger("bolide")

Message = MutableMapping[str, Any]
Callback = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Any]],
    Awaitable[None],
]

_VERSIONS: Final = {"version": "3.0", "spec_version": "2.0"}


FAILED_S: Final = 1.0
"""Seconds to wait, after an application reports that its startup failed, for its exception."""


LAST_WORDS_S: Final = 1.0
"""Seconds for a lifespan to end: after its shutdown, and again after it was cancelled."""


class LifespanError(Error):
    """The application reported that its startup or its shutdown failed.

    The cause is the exception that the application raised then, if it gave no reason itself.
    """


class AsgiApplication:
    """A callable of ASGI 3.

    An application that raises when it is called for its lifespan, or returns, has no lifespan and
    is served without one. An application that raises after it has received the startup event
    probably has a lifespan that fails, so this is logged. All of this is a failure if its
    `lifespan` is "on". If that is "off", it is not called for one.
    """

    def __init__(
        self,
        app: Callback,
        *,
        root_path: str = "",
        extensions: Sequence[str] = (),
        lifespan: str = "auto",
    ) -> None:
        self._app = app
        self._lifespan = lifespan
        self._extensions = extensions
        self._root_path = root_path
        self._state: dict[str, Any] = {}
        self._is_started = False
        self._is_shutting_down = False
        self._has_shut_down = False
        self._has_received = False
        self._has_failed = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message | None] = asyncio.Queue()

    def core(self) -> _core.AsgiApp:
        """Return what the core serves."""
        return _core.AsgiApp(
            self._app,
            as_coroutine=_as_coroutine,
            run_in_task=_run_asgi,
            root_path=self._root_path,
            state=self._state,
            disconnected=ClientDisconnected,
            extensions=self._extensions,
        )

    async def startup(self) -> None:
        """Run the lifespan up to the end of the startup.

        Raises:
            LifespanError: the application reports that it failed.
        """
        if self._lifespan == "off":
            return
        self._task = asyncio.create_task(self._run(), name="lifespan")
        try:
            reply = await self._ask("lifespan.startup")
            if reply is not None and reply["type"] == "lifespan.startup.failed":
                raise await self._startup_error(str(reply.get("message", "")))
            if reply is None and self._lifespan == "on":
                raise LifespanError("it returned without a startup (lifespan=on)")
        except BaseException:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=LAST_WORDS_S)
            raise

    async def shutdown(self) -> None:
        """Run the rest of the lifespan.

        Raises:
            LifespanError: the application reports that it failed.
        """
        if self._task is None or self._task.done():
            return
        self._is_shutting_down = True
        reply = await self._ask("lifespan.shutdown")
        try:  # what is around the application may have something to close, too
            await asyncio.wait({self._task}, timeout=LAST_WORDS_S)
        finally:
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=LAST_WORDS_S)
        if reply is not None and reply["type"] == "lifespan.shutdown.failed":
            raise LifespanError(str(reply.get("message", "")) or "no reason given")

    async def _startup_error(self, message: str) -> LifespanError:
        """Return the exception that says why the startup failed."""
        if message or self._task is None:
            return LifespanError(message or "no reason given")
        await asyncio.wait({self._task}, timeout=FAILED_S)
        if self._error is None:
            return LifespanError("no reason given")
        if isinstance(self._error, SystemExit):
            return LifespanError(f"it called sys.exit({self._error.code!r})")
        error = LifespanError(f"{type(self._error).__name__}: {self._error}")
        error.__cause__ = self._error
        return error

    async def _ask(self, kind: str) -> Message | None:
        """Send an event; return what follows, or None if the application ended without a reply.

        A second reply to an earlier event is there before, and is passed over.
        """
        while not self._from_app.empty():
            if self._from_app.get_nowait() is None:
                return None
        self._to_app.put_nowait({"type": kind})
        return await self._from_app.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(_VERSIONS), "state": self._state}
        try:
            await self._app(scope, self._receive, self._take)
        except BaseException as error:
            if self._is_being_closed(error) or is_cancellation(error):
                raise
            self._error = error
            if self._is_shutting_down:
                logger.exception("the application's lifespan failed at its shutdown")
            elif self._is_started:
                text = "the application's lifespan failed after its startup"
                logger.exception("%s; it is served, but its shutdown will not run", text)
            elif isinstance(error, SystemExit) or self._lifespan == "on":
                self._from_app.put_nowait({"type": "lifespan.startup.failed"})
            elif self._has_received and not self._has_failed:
                text = "the application raised during its startup; it is served without a lifespan"
                logger.warning(text, exc_info=True)
            else:
                logger.debug("the application has no lifespan: %r", error)
        finally:
            self._from_app.put_nowait(None)

    def _is_being_closed(self, error: BaseException) -> bool:
        """Return whether the coroutine is being destroyed, which does not happen in its task."""
        if not isinstance(error, GeneratorExit):
            return False
        try:
            return asyncio.current_task() is not self._task
        except RuntimeError:  # no loop runs
            return True

    async def _receive(self) -> Message:
        if self._has_shut_down and self._task is not None:
            self._task.cancel()  # nothing follows
        message = await self._to_app.get()
        self._has_received = True
        return message

    async def _take(self, message: Message) -> None:
        self._has_failed |= message["type"] == "lifespan.startup.failed"
        self._is_started |= message["type"] == "lifespan.startup.complete"
        self._has_shut_down |= message["type"].startswith("lifespan.shutdown.")
        self._from_app.put_nowait(message)


def is_cancellation(error: BaseException) -> bool:
    """Return whether this task is being cancelled, and the application has not raised by itself."""
    task = asyncio.current_task()
    is_being_cancelled = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable


async def _run_asgi(
    app: Callback,
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Any],
) -> None:
    await app(scope, receive, send)
