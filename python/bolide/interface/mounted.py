"""A native application together with the applications that are mounted on it.

The native application's startup runs first, because it may open what the others use. The others
follow in the order in which they were mounted. The shutdowns run in reverse order. If a startup
fails, the shutdowns of those that had completed run before the server gives up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bolide import _core
from bolide.interface.asgi import AsgiApplication, LifespanError
from bolide.interface.wsgi import WsgiApplication

if TYPE_CHECKING:
    from bolide.web import App

__all__ = ["MountedApplication"]

logger = logging.getLogger("bolide")


class MountedApplication:
    """A `bolide.App` and ASGI and WSGI applications by prefix."""

    def __init__(
        self, native: App, mounts: Sequence[tuple[str, AsgiApplication | WsgiApplication]]
    ) -> None:
        self._native = native
        self._mounts = mounts
        self._started: list[tuple[str, App | AsgiApplication | WsgiApplication]] = []

    def core(self) -> _core.MountedApp:
        """Return what the core serves."""
        mounts = [(prefix, app.core()) for prefix, app in self._mounts]
        return _core.MountedApp(self._native.core(), mounts)

    async def startup(self) -> None:
        """Run every startup, one after the other.

        Raises:
            LifespanError: one of the mounted applications reports that it failed.
            Exception: whatever a startup hook of the native one raises.
        """
        for prefix, app in [("", self._native), *self._mounts]:
            try:
                await app.startup()
            except LifespanError as error:
                await self.shutdown()
                raise LifespanError(f"mounted at {prefix}: {error}") from error.__cause__
            except BaseException:
                await self.shutdown()
                raise
            self._started.append((prefix, app))

    async def finish(self) -> None:
        """Wait for the calls of WSGI applications that go on after their responses."""
        for _, app in self._mounts:
            if isinstance(app, WsgiApplication):
                await app.finish()

    @property
    def busy_threads(self) -> int:
        """How many threads run calls of WSGI applications."""
        of_wsgi = [app for _, app in self._mounts if isinstance(app, WsgiApplication)]
        return sum(app.busy_threads for app in of_wsgi)

    async def shutdown(self) -> None:
        """Run the shutdown of each that was started, even if one of them raises.

        Threads of WSGI applications are waited for last: a view that does not return takes no time
        of the other shutdowns.
        """
        of_wsgi = [app for _, app in self._started if isinstance(app, WsgiApplication)]
        while self._started:
            prefix, app = self._started.pop()
            try:
                if isinstance(app, WsgiApplication):
                    app.close()
                else:
                    await app.shutdown()
            except LifespanError as error:
                logger.error("the shutdown of what is mounted at %s failed: %s", prefix, error)
            except Exception:
                logger.exception("the shutdown of what is mounted at %s failed", prefix)
        for app in of_wsgi:
            await app.ended()
