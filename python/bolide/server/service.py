"""One application, served inside one running event loop: start, drain, stop.

It does not know processes or signals; `worker.py` wraps it in a process, `embedded.py` in a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from bolide import _core
from bolide.errors import ConfigError
from bolide.interface.mounted import MountedApplication
from bolide.interface.wsgi import WsgiApplication
from bolide.server import capacity, lifespan, memory
from bolide.server.logs import logger
from bolide.server.process.slow_requests import SlowRequests

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application
    from bolide.server.listener import Listener

LAST_WORDS_S: Final = 0.1
"""Time that handlers have to end after they are cancelled."""


class Service:
    """An application together with the reactor that serves it."""

    def __init__(
        self,
        app: Application,
        settings: Settings,
        access_log_fd: int | None,
        tls: _core.TlsConfig | None = None,
        *,
        redirects_to_https: bool = False,
    ) -> None:
        self._app = app
        try:
            options = settings.server_options(access_log_fd)
            options["connections_max"] = capacity.connections_max(settings)
            options["memory_bytes_max"] = memory.served_max(settings)
            options["tls"] = tls
            options["redirects_to_https"] = redirects_to_https
            options["debug_log"] = logger.getChild("error").isEnabledFor(logging.DEBUG)
            self.server = _core.Server(app.core(), options)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._backlog = settings.backlog
        self._slow = SlowRequests(self.server, settings) if settings.slow_request_ms else None

    def attach(self, *, own_selector: bool) -> None:
        """Bind the server to the running loop, before the application's startup."""
        self.server.attach(asyncio.get_running_loop(), own_selector=own_selector)
        if self._slow is not None:
            self._slow.watch()

    async def startup(self, *, own_selector: bool) -> None:
        """Run the application's startup.

        Raises:
            StartupError: it raised.
        """
        self.attach(own_selector=own_selector)
        try:
            await lifespan.startup(self._app)
        except BaseException:
            self._stop_server()
            raise

    async def listen(self, listeners: Iterable[Listener]) -> None:
        """Accept connections, after the startup.

        Raises:
            ConfigError: another process listens at an address now; what was started is shut down.
        """
        try:
            for each in listeners:
                each.listen(self._backlog)
                self.server.add_listener(each.socket.fileno(), self._backlog)
        except ConfigError:
            self._stop_server()
            await lifespan.shutdown(self._app)
            raise

    async def stop(self, within_s: float) -> None:
        """Stop accepting, let the requests in flight finish, then run the application's shutdown.

        Whatever is still open after `within_s` seconds, or at a cancellation, is closed: a request
        without a response gets 503, and a response that was started is truncated. Handlers that
        have not ended by then, whether they have responded or not, are cancelled.
        """
        drained = asyncio.Event()
        self.server.on_drained(drained.set)
        self.server.drain()
        try:
            async with asyncio.timeout(within_s):
                await drained.wait()
                if isinstance(self._app, WsgiApplication | MountedApplication):
                    await self._app.finish()
        except TimeoutError:
            pass  # what did not finish is logged below
        finally:
            self._close()
            await self._cancel_handlers()
            await lifespan.shutdown(self._app)

    def is_stuck(self) -> bool:
        """Return whether no thread is left for the application's views, and none is expected."""
        return isinstance(self._app, WsgiApplication) and self._app.is_stuck

    def _close(self) -> None:
        """Close what is still open, and log what did not finish."""
        connections = self.server.connections
        refused, cut = self._stop_server()
        if connections:
            logger.warning(
                "closing %d connection(s) that did not finish: %d request(s) without a response"
                " (503), %d response(s) cut",
                connections,
                refused,
                cut,
            )
        if handlers := len(self.server.running_tasks()):
            logger.warning("cancelling %d handler(s) that did not finish", handlers)
        if not connections and isinstance(self._app, WsgiApplication | MountedApplication):
            if threads := self._app.busy_threads:
                logger.warning("leaving %d view(s) that did not finish", threads)

    def _stop_server(self) -> tuple[int, int]:
        unfinished = self.server.stop()
        if self._slow is not None:
            self._slow.end()
        return unfinished

    async def _cancel_handlers(self) -> None:
        """Cancel the handlers that have not ended, and let them react."""
        tasks = self.server.running_tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORDS_S)
