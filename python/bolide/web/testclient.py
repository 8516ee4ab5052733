"""`TestClient`: calls an application through the real server, without a port.

Inside `with`, a thread runs an asyncio loop on the core's own reactor, as a worker does. Each call
opens its own connection (a socket pair, one end of which the server adopts) and speaks HTTP/1.1
over it, so that routing, framing, limits and errors are those of a served application. Redirects
are not followed, and cookies are not kept between calls. Mounted applications are called as a
server calls them: ASGI on that loop, WSGI in threads of their own.
"""

import asyncio
import contextlib
import http.client
import json as json_module
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack
from urllib.parse import quote, urlencode

from bolide import _core
from bolide.config.settings import Settings, resolve
from bolide.interface import recognition
from bolide.server.service import Service
from bolide.web import foreign
from bolide.web.app import App
from bolide.web.multidict import Headers
from bolide.web.result import Result
from bolide.web.testsocket import TestSocket, WebSocketRefused

__all__ = ["Result", "TestClient", "TestSocket", "WebSocketRefused"]

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]
Params = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Names and values of a query; a value that is not a str is sent as `str` shows it."""

_ABSENT: Final[Any] = object()
_STOP_S: Final = 1.0
"""Seconds for what is still running at the end of a test; it is cancelled then."""


class Call(TypedDict, total=False):
    """The keywords of a call; see `TestClient.request`."""

    params: Params | None
    headers: Pairs | None
    cookies: Mapping[str, str] | None
    json: Any
    content: bytes | str | Iterable[bytes] | None


class TestClient:
    """Calls an application from a test: `with TestClient(app) as client: client.get("/")`.

    Entering runs the startup hooks and the startups of what is mounted, and leaving the shutdown
    hooks and the shutdowns. Calls work only in between, from any thread. `options` are settings of
    the server by name, as keywords of `bolide.run` (docs/settings.md), with the same defaults;
    variables and files set none. Addresses, TLS, processes and log files have no effect.
    `timeout_s` limits each wait for the server, in seconds: also for its startup, and for its
    shutdown when what was running has ended.

    Raises:
        TypeError: the application is not an `App`.
        ConfigError: a setting does not exist, or its value is not valid.
    """

    __test__ = False  # pytest: this class is not a test itself

    def __init__(
        self, app: App, *, options: Mapping[str, Any] | None = None, timeout_s: float = 10.0
    ) -> None:
        given: object = app
        if not isinstance(given, App):
            kind = f"{type(given).__module__}.{type(given).__qualname__}"
            remedy = "use the test client of its framework"
            raise TypeError(f"TestClient calls a bolide.App, not a {kind}; {remedy}")
        self._app = app
        # An empty file: what is in the current folder is for servers.
        self._settings = resolve(options or {}, config=os.devnull, environ={})
        self._timeout_s = timeout_s
        self._worker: _Worker | None = None

    def __enter__(self) -> Self:
        """Start the server and run the startup hooks.

        Raises:
            RuntimeError: the client was entered already.
            ConfigError: what is mounted is not an ASGI or WSGI application.
            LifespanError: the startup of a mounted ASGI application failed.
            TimeoutError: the startup did not end in time; it is cancelled.
            Exception: whatever a startup hook raises.
        """
        if self._worker is not None:
            raise RuntimeError("this TestClient was entered already")
        worker = _Worker(self._app, self._settings, self._timeout_s)
        worker.start()
        self._worker = worker
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server as `bolide serve` does, and run the shutdown hooks.

        What is still running has a second to end: requests, and handlers whose clients have left.
        Then it is cancelled.

        Raises:
            TimeoutError: the shutdown did not end in time; it is cancelled.
            BaseException: whatever ended the server before, such as a SystemExit in a task.
        """
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    @foreign.advising("a call of TestClient", foreign.CALL_KEYWORDS)
    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Pairs | None = None,
        cookies: Mapping[str, str] | None = None,
        json: Any = _ABSENT,
        content: bytes | str | Iterable[bytes] | None = None,
    ) -> Result:
        """Send one request and read its response to the end.

        `path` may contain a query, to which `params` are added. Characters that are not valid in a
        request target are percent-encoded. Each pair of `headers` is a field line of its own, but
        all cookies are one. `json` is a value to send as JSON. `content` is sent as it is, a str as
        UTF-8 and an iterable in chunks.

        Raises:
            RuntimeError: outside of `with`.
            TypeError: both json and content are given.
            ValueError: the path does not begin with a slash.
            TimeoutError: the server did not respond in time.
            http.client.HTTPException: the response is not valid, for example cut short.
        """
        fields = _Fields(headers, cookies)
        body: Any = content.encode() if isinstance(content, str) else content
        if json is not _ABSENT:
            if content is not None:
                raise TypeError("a request takes json or content, not both")
            body = json_module.dumps(json).encode()
            if "content-type" not in fields:
                fields.append("content-type", "application/json")
        with contextlib.closing(self.connect()) as sock:
            connection = _Connection(sock)
            with contextlib.closing(connection):
                return _exchange(connection, method, _target(path, params), body, fields)

    def websocket(
        self,
        path: str,
        *,
        subprotocols: Sequence[str] = (),
        params: Params | None = None,
        headers: Pairs | None = None,
        cookies: Mapping[str, str] | None = None,
    ) -> TestSocket:
        """Open a WebSocket: `with client.websocket("/chat") as websocket:`.

        Raises:
            RuntimeError: outside of `with`.
            ValueError: the path does not begin with a slash.
            WebSocketRefused: the server did not accept the handshake.
            TimeoutError: the server did not respond in time.
        """
        fields = _Fields(headers, cookies)
        return TestSocket(self.connect(), _target(path, params), fields.lines, subprotocols)

    def connect(self) -> socket.socket:
        """Open a connection to the server, for a test that writes its own bytes.

        Raises:
            RuntimeError: outside of `with`, or something has ended the server.
            TimeoutError: the server did not accept it in time, because a handler does not await.
        """
        if self._worker is None:
            raise RuntimeError("a TestClient works inside `with TestClient(app) as client:` only")
        sock = self._worker.connect()
        sock.settimeout(self._timeout_s)
        return sock

    def get(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a GET request; see `request`."""
        return self.request("GET", path, **arguments)

    def head(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a HEAD request; see `request`."""
        return self.request("HEAD", path, **arguments)

    def post(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a POST request; see `request`."""
        return self.request("POST", path, **arguments)

    def put(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a PUT request; see `request`."""
        return self.request("PUT", path, **arguments)

    def patch(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a PATCH request; see `request`."""
        return self.request("PATCH", path, **arguments)

    def delete(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send a DELETE request; see `request`."""
        return self.request("DELETE", path, **arguments)

    def options(self, path: str, **arguments: Unpack[Call]) -> Result:
        """Send an OPTIONS request; see `request`."""
        return self.request("OPTIONS", path, **arguments)


class _Response(http.client.HTTPResponse):
    """A final response: interim ones, such as early hints, are skipped (RFC 9110 §15.2)."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= line[1] < 200 or line[1] == http.client.SWITCHING_PROTOCOLS:
                return line
            http.client.parse_headers(self.fp)


class _Connection(http.client.HTTPConnection):
    """The standard library's client over an existing socket."""

    response_class = _Response

    def __init__(self, sock: socket.socket) -> None:
        super().__init__("testserver")
        self.auto_open = False
        self.sock = sock


class _Worker:
    """The thread that runs the server; the core is only called there."""

    def __init__(self, app: App, settings: Settings, timeout_s: float) -> None:
        self._app = recognition.application(app, "the application", settings)
        self._settings = settings
        self._timeout_s = timeout_s
        self._ready: Future[None] = Future()
        # A daemon: a hook that blocks for good does not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name="bolide-test-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._service: Service
        self._end = asyncio.Event()
        self._is_given_up = False
        self._failure: BaseException | None = None
        """What has ended the loop after the startup."""

    def start(self) -> None:
        """Start the thread and wait until the startup hooks have run.

        Raises:
            TimeoutError: they did not end in time.
            Exception: whatever a startup hook raised.
        """
        self._thread.start()
        try:
            self._ready.result(self._timeout_s)
        except BaseException as error:
            is_late = isinstance(error, TimeoutError) and not self._ready.done()
            self._give_up()
            if is_late:
                raise TimeoutError(f"the startup did not end within {self._timeout_s} s") from None
            raise

    def stop(self) -> None:
        """End the loop and wait for the thread.

        Raises:
            TimeoutError: the shutdown did not end in time.
            BaseException: whatever ended the loop before.
        """
        with contextlib.suppress(RuntimeError):  # it has ended
            self._call(self._end.set)
        self._thread.join(_STOP_S + self._timeout_s)
        if self._thread.is_alive():
            self._give_up()
            raise TimeoutError(f"the shutdown did not end within {self._timeout_s} s")
        if self._failure is not None:
            raise self._failure

    def connect(self) -> socket.socket:
        """Return our end of a new connection; the server closes the other one.

        Raises:
            RuntimeError: the loop has ended.
            TimeoutError: the server has not accepted it in time.
        """
        ours, theirs = socket.socketpair()
        adopted: Future[None] = Future()

        def adopt() -> None:
            with theirs:  # the server keeps a duplicate
                if not adopted.set_running_or_notify_cancel():
                    return
                try:
                    self._service.server.adopt(theirs.fileno())
                    adopted.set_result(None)
                except Exception as error:
                    adopted.set_exception(error)

        try:
            self._call(adopt)
        except RuntimeError:
            ours.close()
            theirs.close()
            raise RuntimeError("the server has ended") from self._failure
        try:
            adopted.result(self._timeout_s)
        except BaseException as error:
            ours.close()
            if adopted.cancel() and isinstance(error, TimeoutError):
                text = f"no connection was accepted within {self._timeout_s} s"
                raise TimeoutError(f"{text}: a handler does not await") from None
            raise
        return ours

    def _call(self, callback: Callable[[], object]) -> None:
        """Have the loop call a function.

        Raises:
            RuntimeError: it has not started, or has ended.
        """
        if self._loop is None:
            raise RuntimeError("the loop has not started")
        self._loop.call_soon_threadsafe(callback)

    def _give_up(self) -> None:
        """Cancel what has not ended, the startup or the shutdown, and wait for the thread."""
        self._is_given_up = True
        with contextlib.suppress(RuntimeError):  # the loop sees it when it starts, or has ended
            self._call(self._cancel)
        self._thread.join(self._timeout_s)

    def _cancel(self) -> None:
        has_just_started = self._ready.done() and not self._end.is_set()
        self._end.set()
        if self._task is not None and not has_just_started:
            self._task.cancel()

    def _run(self) -> None:
        try:
            self._service = Service(self._app, self._settings, None)
            with asyncio.Runner(loop_factory=self._make_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)
        finally:
            # Here, because the core's objects belong to the thread that created them.
            self.__dict__.pop("_service", None)

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        # Not in a frame that the traceback of a failure keeps: that would keep connections open.
        return asyncio.SelectorEventLoop(_core.selector(self._service.server))

    async def _serve(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._is_given_up:
            return
        self._service.attach(own_selector=True)
        await self._app.startup()
        self._ready.set_result(None)
        await self._end.wait()
        await self._service.stop(_STOP_S)


class _Fields:
    """Field lines as `http.client` takes them, where a name may have several."""

    def __init__(self, headers: Pairs | None, cookies: Mapping[str, str] | None) -> None:
        self.lines: list[tuple[str, str]] = []
        crumbs: list[str] = []
        for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
            if name.lower() == "cookie":  # one field line (RFC 6265 §5.4)
                crumbs.append(value)
            else:
                self.append(name.lower(), value)
        crumbs += [f"{name}={value}" for name, value in (cookies or {}).items()]
        if crumbs:
            self.append("cookie", "; ".join(crumbs))

    def append(self, name: str, value: str) -> None:
        self.lines.append((name, value))

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.lines)

    def items(self) -> list[tuple[str, str]]:
        return self.lines


def _exchange(
    connection: _Connection, method: str, target: str, body: Any, fields: _Fields
) -> Result:
    # A server that rejects content responds before it has read it all: the response still counts.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request(method, target, body, fields)  # type: ignore[arg-type]
    response = connection.getresponse()
    return Result(response.status, Headers(response.getheaders()), response.read())


def _target(path: str, params: Params | None) -> str:
    if not path.startswith("/") and path != "*" and "://" not in path:  # RFC 9112 section 3.2
        raise ValueError(f"the path must begin with a slash: {path!r}")
    target = quote(path, safe="/%?&=:@!$'()*+,;~-._[]")
    if params:
        pairs = list(params.items()) if isinstance(params, Mapping) else list(params)
        target += ("&" if "?" in path else "?") + urlencode(pairs)
    return target
