"""`Server`: an application served inside a running event loop.

It does not start processes, handle signals or configure logging; `bolide.run` does all that. One
task runs the application's startup, its shutdown and everything between.
"""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, Self

from bolide.config import proxies
from bolide.config.address import Address
from bolide.config.settings import resolve
from bolide.errors import ConfigError, StartupError
from bolide.interface.greenlets import refuse_patched
from bolide.server import capacity, importer, listener, worker
from bolide.server.development import disclosure
from bolide.server.logs import logger
from bolide.server.process import socket_access
from bolide.server.process.access_log import open_access_log
from bolide.server.redirect import Redirection
from bolide.server.service import Service
from bolide.server.tls.certificates import CHECK_S, NO_THREAD, Certificates, UnreadableError

__all__ = ["Server"]

PROCESS_OPTIONS = (
    "workers",
    "loop",
    "log_level",
    "log_format",
    "log_config",
    "requests_max",
    "requests_max_jitter",
    "worker_lifetime_s",
    "worker_memory_max",
    "worker_timeout_ms",
    "upgrade_timeout_ms",
    "pid_file",
    "preload",
    "on_worker_start",
    "cpu_affinity",
    "debug",
    "reload",
    "reload_dir",
    "reload_include",
    "reload_exclude",
)
SUPERVISOR_OPTIONS = ("management",)


class Server:
    """A server in the running loop: `async with bolide.Server(app, port=0) as server: ...`.

    It serves inside `async with`, and drains at its end, as after `stop()`. Without `async with`,
    `await start()`, or run `serve()` in a task of your own and `await wait_ready()`. The options
    are those of `bolide.serve`. An object can be started once.

    Raises:
        ConfigError: an option is not valid or belongs to `bolide.run`, or gevent or eventlet has
            patched this process.
    """

    def __init__(self, app: Any, *, config: str | None = None, **settings: Any) -> None:
        for name in PROCESS_OPTIONS:
            if name in settings:
                raise ConfigError(f"{name}= is for bolide.run; serve uses the loop it runs in")
        for name in SUPERVISOR_OPTIONS:
            if name in settings:
                raise ConfigError(f"{name}= is for bolide.run, which has a supervisor")
        refuse_patched(app if isinstance(app, str) else "the application")
        self._app = app
        self._settings = resolve(settings, config=config)
        self._addresses: tuple[Address, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._is_ready = False
        self._is_stopped = False
        self._settled = asyncio.Event()  # it is ready, or its start has failed
        self._stop = asyncio.Event()
        self._startup_limit: asyncio.Timeout | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses: `host` and `port`, or `path` of a UNIX socket; each has a `url`.

        If the option was port 0, `port` is the actual port. They remain after the server stopped.

        Raises:
            RuntimeError: it is not ready yet.
        """
        if not self._addresses:
            raise RuntimeError("the server has no addresses yet: await start() or wait_ready()")
        return self._addresses

    async def start(self) -> None:
        """Start to serve, and return when it is ready.

        Raises:
            ConfigError: the application is not valid, or an address is in use.
            StartupError: the application's startup raised, or `stop()` was called meanwhile.
            RuntimeError: it was started before.
        """
        task = self._begin()
        try:
            await self.wait_ready()
        except asyncio.CancelledError:
            await _end(task)
            raise

    async def serve(self) -> None:
        """Serve until `stop()` or a cancellation, and return when everything is closed.

        A second cancellation closes what has not finished.

        Raises:
            ConfigError, StartupError, RuntimeError: as `start`.
        """
        task = self._begin()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await self._stop_and_close(task)
            raise
        if not task.cancelled():  # by a stop() before it was ready
            task.result()

    async def wait_ready(self) -> None:
        """Wait until it accepts connections, or its start has failed.

        Raises:
            ConfigError, StartupError: as `start`.
        """
        await self._settled.wait()
        if self._is_ready:
            return
        if self._task is not None and not self._task.cancelled():
            self._task.result()
        raise StartupError("the server was stopped before it was ready")

    def stop(self) -> None:
        """Start to stop: refuse connections, let requests in flight finish, then shut down.

        It returns at once; `wait_closed` waits. It may be called from any thread, more than once,
        and before the server is ready. In that case a running startup has `graceful_timeout_ms` to
        complete and the shutdown follows, but no client can connect.
        """
        self._is_stopped = True
        if self._task is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._stop_here)

    async def wait_closed(self) -> None:
        """Wait until every connection is closed and the application's shutdown has run.

        Raises:
            RuntimeError: it was never started.
        """
        if self._task is None:
            raise RuntimeError("the server was not started: await start()")
        await asyncio.wait([self._task])

    async def __aenter__(self) -> Self:
        """Start to serve, as `start` does."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, and wait until all is closed; a cancellation closes what has not finished."""
        if self._task is not None:
            await self._stop_and_close(self._task)

    def _begin(self) -> asyncio.Task[None]:
        if self._task is not None:
            raise RuntimeError("this server was started before: create another one")
        self._task = asyncio.create_task(self._run(), name="bolide.Server")
        self._task.add_done_callback(lambda _: self._settled.set())
        if self._is_stopped:
            self._task.cancel()
        return self._task

    def _stop_here(self) -> None:
        if self._startup_limit is not None and not self._stop.is_set():
            graceful_s = self._settings.graceful_timeout_ms / 1000
            self._startup_limit.reschedule(asyncio.get_running_loop().time() + graceful_s)
        self._stop.set()

    async def _stop_and_close(self, task: asyncio.Task[None]) -> None:
        self._stop_here()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _end(task)
            raise

    async def _run(self) -> None:
        certificates = Certificates(self._settings) if self._settings.pairs else None
        access = socket_access.SocketAccess.of(self._settings)
        listeners = listener.open_all(self._settings.addresses, access)
        redirecting: list[listener.Listener] = []
        try:
            disclosure.check(self._settings, listeners)  # a variable or file may have set debug
            redirecting = listener.open_all(self._settings.redirect_to_https, access)
            if line := socket_access.unused(self._settings, (*listeners, *redirecting)):
                logger.warning(line)
            redirection = Redirection(redirecting, listeners, self._settings)
            service = self._service(certificates)
            if not await self._has_started(service):
                return
            is_served = not self._stop.is_set()
            if is_served:
                await redirection.listen(service, listeners)
            try:
                if is_served:
                    self._announce_ready(listeners)
                    await self._wait_for_stop(service, certificates)
            finally:
                listener.close_all(listeners)
                listener.close_all(redirecting)
                within_s = worker.drain_s(self._settings.graceful_timeout_ms / 1000)
                await asyncio.gather(redirection.stop(within_s), service.stop(within_s))
        finally:
            listener.close_all(listeners)
            listener.close_all(redirecting)

    async def _wait_for_stop(self, service: Service, certificates: Certificates | None) -> None:
        """Wait for `stop()`; meanwhile, use certificates whose files have changed."""
        if certificates is None:
            await self._stop.wait()
            return
        used = certificates.generation
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._stop.wait()
            except TimeoutError:
                await _look(certificates)
                if certificates.generation != used:
                    used = certificates.generation
                    service.server.renew_tls(certificates.current)

    async def _has_started(self, service: Service) -> bool:
        """Run the startup; after `stop()` it has the graceful time. Return False if that passed."""
        try:
            async with asyncio.timeout(None) as self._startup_limit:
                await service.startup(own_selector=False)
        except TimeoutError:
            logger.warning("the application's startup did not end in time: it was cancelled")
            return False
        finally:
            self._startup_limit = None
        return True

    def _service(self, certificates: Certificates | None) -> Service:
        if isinstance(self._app, str):
            app = importer.load(self._app, self._settings)
        else:
            app = importer.check(self._app, "the application", self._settings)
        access_log_fd = open_access_log(self._settings.access_log)
        try:
            tls = certificates.current if certificates is not None else None
            return Service(app, self._settings, access_log_fd, tls)
        finally:
            if access_log_fd is not None:
                os.close(access_log_fd)  # the service has a copy

    def _announce_ready(self, listeners: list[listener.Listener]) -> None:
        for line in capacity.shortfalls(self._settings):
            logger.warning(line)
        self._addresses = tuple(each.address for each in listeners)
        self._is_ready = True
        self._settled.set()
        logger.info(proxies.described(self._settings))
        if self._settings.debug:
            logger.warning(disclosure.WARNING)
        listener.announce("the application", listeners)


async def _look(certificates: Certificates) -> None:
    """Look at the files in a thread: their system may not respond, and keys take long to open."""
    try:
        await asyncio.to_thread(certificates.look)
    except RuntimeError:  # the work stays in a queue, and is done with the next one
        error = UnreadableError(f"the certificates could not be looked at: {NO_THREAD}")
        certificates.keep(error, is_asked=False)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; its exception was reported or is no longer of use."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
