"""Serves an application on loopback in a thread of its own: by Bolide, or by uvicorn to compare.

It replaces a framework's private test transport: the bytes go through a socket and the
server's parser. It knows no framework. What an application raises is remembered, for test clients
hand exceptions to the test, and a socket cannot.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any

START_MAX_S, STOP_MAX_S, IDLE_MAX_S = 20, 20, 10
READY = re.compile(r" on http://[^ ]*:(\d+)")


class Recorded:
    """An ASGI application together with what it raised, and how many of its calls are running."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, has_lifespan: bool) -> None:
        self._app = app
        self._has_lifespan = has_lifespan
        self._changed = threading.Condition()
        self._running = self._begun = 0
        self._errors: list[BaseException] = []
        self.lifespan_error: BaseException | None = None
        self.scheme = "http"
        """What the client asked for; over https, a proxy would say so."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application and note how that ended."""
        if scope["type"] == "lifespan":
            return await self._lifespan(scope, receive, send)
        with self._changed:
            self._running += 1
            self._begun += 1
            self._changed.notify_all()
        if self.scheme != "http":
            scope["scheme"] = self.scheme
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            self._errors.append(error)
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        if self._has_lifespan:
            try:
                return await self._app(scope, receive, send)
            except BaseException as error:
                self.lifespan_error = error
                raise
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def wait_idle(self, begun: int = 0) -> None:
        """Wait until so many calls of the application have begun and none is running.

        Raises:
            TimeoutError: one was still running after `IDLE_MAX_S` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_idle(begun), IDLE_MAX_S):
                raise TimeoutError(f"the application ran on for {IDLE_MAX_S} s after its response")

    def _is_idle(self, begun: int) -> bool:
        return self._begun >= begun and not self._running

    def take_error(self) -> BaseException | None:
        """Return what the application raised since the last time this was asked."""
        errors, self._errors = self._errors, []
        return errors[0] if errors else None


class Live:
    """A server in a thread; `port` is where, once it has started."""

    port: int

    def __init__(self, app: Any, server: str, **options: Any) -> None:
        self._app = app
        self._options = options
        self._run = {"bolide": self._run_bolide, "uvicorn": self._run_uvicorn}[server]
        self._stop: Callable[[], Any] = lambda: None
        self._is_settled = threading.Event()
        self._is_ready = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)

    def start(self) -> None:
        """Start, and wait until it listens.

        Raises:
            RuntimeError: it ended in place of that; `error` says why, if it is known.
        """
        self._thread.start()
        if not self._is_settled.wait(START_MAX_S):
            raise RuntimeError(f"the server did not start within {START_MAX_S} s")
        if not self._is_ready:
            self._thread.join(STOP_MAX_S)
            raise RuntimeError("the server did not start") from self.error

    def stop(self) -> None:
        """Stop, and wait for the end.

        Raises:
            RuntimeError: it went on.
        """
        if self._thread.is_alive():
            self._stop()
            self._thread.join(STOP_MAX_S)
            if self._thread.is_alive():
                raise RuntimeError(f"the server did not stop within {STOP_MAX_S} s")

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error
        finally:
            self._is_settled.set()

    def _ready_on(self, port: int) -> None:
        self.port = port
        self._is_ready = True
        self._is_settled.set()

    async def _run_bolide(self) -> None:
        import bolide

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        thread = threading.get_ident()

        class Announced(logging.Handler):
            def emit(handler, record: logging.LogRecord) -> None:  # noqa: N805
                match = READY.search(record.getMessage())
                if match and record.thread == thread:
                    self._ready_on(int(match[1]))

        logger, announced = logging.getLogger("bolide"), Announced(logging.INFO)
        logger.setLevel(logging.INFO)
        logger.addHandler(announced)
        try:
            await bolide.serve(self._app, **{"port": 0, "host": "127.0.0.1", **self._options})
        except asyncio.CancelledError:
            pass  # `_stop` did it
        finally:
            logger.removeHandler(announced)

    async def _run_uvicorn(self) -> None:
        import uvicorn

        options = {"port": 0, "host": "127.0.0.1", "log_config": None, **self._options}
        server = uvicorn.Server(uvicorn.Config(self._app, lifespan="on", ws="none", **options))
        self._stop = lambda: setattr(server, "should_exit", True)
        task = asyncio.create_task(server.serve())
        while not server.started and not task.done():
            await asyncio.sleep(0.005)
        if server.started:
            self._ready_on(server.servers[0].sockets[0].getsockname()[1])
        try:
            await task
        except SystemExit as error:
            raise RuntimeError("uvicorn ended") from error
