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
from collections.abc import Iterable, Mapping, Sequence
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
    `timeout_s` limits each wait for the server, in seconds.

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
            Exception: whatever a startup hook raises.
        """
        if self._worker is not None:
            raise RuntimeError("this TestClient was entered already")
        worker = _Worker(self._app, self._settings)
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
        request target are percent-encoded. `json` is a value to send as JSON. `content` is sent as
        it is, a str as UTF-8 and an iterable in chunks.

        Raises:
            RuntimeError: outside of `with`.
            TypeError: both json and content are given.
            ValueError: the path does not begin with a slash.
            TimeoutError: the server did not respond in time.
            http.client.HTTPException: the response is not valid, for example cut short.
        """
        fields = _request_fields(headers, cookies)
        body: Any = content.encode() if isinstance(content, str) else content
        if json is not _ABSENT:
            if content is not None:
                raise TypeError("a request takes json or content, not both")
            body = json_module.dumps(json).encode()
            fields.setdefault("content-type", "application/json")
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
        fields = _request_fields(headers, cookies)
        return TestSocket(self.connect(), _target(path, params), fields, subprotocols)

    def connect(self) -> socket.socket:
        """Open a connection to the server, for a test that writes its own bytes.

        Raises:
            RuntimeError: outside of `with`.
            TimeoutError: the server did not accept it in time, because a handler does not await.
        """
        if self._worker is None:
            raise RuntimeError("a TestClient works inside `with TestClient(app) as client:` only")
        sock = self._worker.connect(self._timeout_s)
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

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = recognition.application(app, "the application", settings)
        self._settings = settings
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="bolide-test-server")
        self._loop: asyncio.AbstractEventLoop
        self._service: Service
        self._end: asyncio.Event

    def start(self) -> None:
        """Start the thread and wait until the startup hooks have run.

        Raises:
            Exception: whatever a startup hook raised.
        """
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        """End the loop and wait for the thread."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def connect(self, timeout_s: float) -> socket.socket:
        """Return our end of a new connection; the server closes the other one.

        Raises:
            TimeoutError: the server has not accepted it after so many seconds.
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
            self._loop.call_soon_threadsafe(adopt)
        except RuntimeError:  # it has ended
            ours.close()
            theirs.close()
            raise
        try:
            adopted.result(timeout_s)
        except BaseException as error:
            ours.close()
            if adopted.cancel() and isinstance(error, TimeoutError):
                text = f"no connection was accepted within {timeout_s} s: a handler does not await"
                raise TimeoutError(text) from None
            raise
        return ours

    def _run(self) -> None:
        try:
            self._service = Service(self._app, self._settings, None)
            selector = _core.selector(self._service.server)
            make_loop = lambda: asyncio.SelectorEventLoop(selector)  # noqa: E731
            with asyncio.Runner(loop_factory=make_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            # Here, because the core's objects belong to the thread that created them.
            self.__dict__.pop("_service", None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._service.attach(own_selector=True)
        await self._app.startup()
        self._ready.set_result(None)
        await self._end.wait()
        await self._service.stop(_STOP_S)


def _exchange(
    connection: _Connection, method: str, target: str, body: Any, fields: dict[str, str]
) -> Result:
    # A server that rejects content responds before it has read it all: the response still counts.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request(method, target, body, fields)
    response = connection.getresponse()
    return Result(response.status, Headers(response.getheaders()), response.read())


def _request_fields(headers: Pairs | None, cookies: Mapping[str, str] | None) -> dict[str, str]:
    """Combine the values of each field name, as RFC 9110 §5.3 allows a sender to do."""
    fields: dict[str, str] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        name = name.lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    if cookies:
        fields["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return fields


def _target(path: str, params: Params | None) -> str:
    if not path.startswith("/") and path != "*" and "://" not in path:  # RFC 9112 section 3.2
        raise ValueError(f"the path must begin with a slash: {path!r}")
    target = quote(path, safe="/%?&=:@!$'()*+,;~-._[]")
    if params:
        pairs = list(params.items()) if isinstance(params, Mapping) else list(params)
        target += ("&" if "?" in path else "?") + urlencode(pairs)
    return target
