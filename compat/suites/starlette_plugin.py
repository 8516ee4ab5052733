"""Pytest plugin: Starlette's tests ask a live server in place of their TestClient's transport.

It replaces `starlette.testclient.TestClient` before a test imports it. Tests that never send a
request through it are none of the server's business; they are not counted. COMPAT_SERVER says
which server, COMPAT_RESULT which file gets what came of each test.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import starlette.testclient
from live import Live, Recorded

SERVER = os.environ["COMPAT_SERVER"]
Original = starlette.testclient.TestClient
httpx = starlette.testclient.httpx

outcomes: dict[str, dict[str, str]] = {}
left_out: Counter[str] = Counter()
open_clients: list[LiveClient] = []
live_requests = 0


class LiveStream(httpx.SyncByteStream):
    """The content of a response; once it is closed, what the application raised is raised."""

    def __init__(self, stream: Any, client: LiveClient) -> None:
        self._stream, self._client = stream, client

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content."""
        with self._client.errors_of_the_application():
            yield from self._stream

    def close(self) -> None:
        """Close, then wait for the end of the application's call, as the TestClient does."""
        self._stream.close()
        self._client.raise_what_was_raised()


class LiveTransport(httpx.BaseTransport):
    """Sends requests for any host to the client's server; the field Host stays what it was.

    One for https goes as a proxy that ends TLS would send it on.
    """

    def __init__(self, client: LiveClient) -> None:
        self._client = client
        # uvicorn closes a connection without notice once an application raised.
        kept = 0 if SERVER == "uvicorn" else 1
        self._sockets = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=kept))

    def handle_request(self, request: Any) -> Any:
        """Send a request over loopback."""
        global live_requests
        live_requests += 1
        port = self._client.serve_port(request.url.scheme)
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)
        sent = httpx.Request(
            request.method,
            url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        with self._client.errors_of_the_application():
            response = self._sockets.handle_request(sent)
        response.stream = LiveStream(response.stream, self._client)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._sockets.close()


class LiveClient(Original):  # type: ignore[valid-type, misc]
    """A TestClient whose requests go to a server over loopback.

    As the original does, it runs the application's lifespan only if it is used as a context
    manager, and raises what the application raised.
    """

    __test__ = False

    def __init__(
        self,
        app: Any,
        base_url: str = "http://testserver",
        raise_server_exceptions: bool = True,
        root_path: str = "",
        **options: Any,
    ) -> None:
        super().__init__(app, base_url, raise_server_exceptions, root_path, **options)
        self._raises = raise_server_exceptions
        self._root_path = root_path
        self._transport = LiveTransport(self)
        self._live: Live | None = None
        self._is_streaming = False
        open_clients.append(self)

    def serve_port(self, scheme: str) -> int:
        """Return the server's port; start it without a lifespan if it was not started."""
        if self._live is None:
            self._start(has_lifespan=False)
        assert self._live is not None
        self._recorded.scheme = scheme
        return self._live.port

    def _start(self, *, has_lifespan: bool) -> None:
        self._recorded = Recorded(self.app, has_lifespan=has_lifespan)
        options = {"root_path": self._root_path} if self._root_path else {}
        live = Live(self._recorded, SERVER, **options)
        try:
            live.start()
        except RuntimeError:
            if self._recorded.lifespan_error is not None:
                raise self._recorded.lifespan_error from None
            raise
        self._live = live

    @contextlib.contextmanager
    def errors_of_the_application(self) -> Iterator[None]:
        """If the connection breaks, raise what the application raised, for that is why."""
        try:
            yield
        except httpx.TransportError:
            self.raise_what_was_raised()
            raise

    def raise_what_was_raised(self) -> None:
        """Wait for the end of the application's calls, and raise what one of them raised."""
        self._recorded.wait_idle()
        error = self._recorded.take_error()
        if error is not None and self._raises:
            raise error

    def websocket_connect(self, *_: Any, **__: Any) -> Any:
        """Skip the test: this server has no WebSocket."""
        pytest.skip("WebSocket")

    def __enter__(self) -> LiveClient:
        """Start the server, and the application's lifespan."""
        self.stop()
        self._start(has_lifespan=True)
        return self

    def __exit__(self, *_: Any) -> None:
        """Stop it."""
        self.stop()

    def stop(self) -> None:
        """Stop the server, if one was started.

        Raises:
            BaseException: what the application's shutdown raised.
        """
        live, self._live = self._live, None
        if live is not None:
            self._transport.close()
            live.stop()
            if self._recorded.lifespan_error is not None:
                raise self._recorded.lifespan_error


starlette.testclient.TestClient = LiveClient  # now: a conftest.py imports it before any hook


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Leave out the tests of the TestClient itself, and what only trio could run."""
    kept, dropped = [], []
    for item in items:
        uses_client = "test_client_factory" in item.fixturenames or "client" in item.fixturenames
        need = None
        if item.path.name == "test_testclient.py":
            need = "a test of the TestClient itself"
        elif item.path.name == "test_websockets.py":
            need = "WebSocket"
        elif "trio" in item.name:
            need = "another event loop (trio)"
        left_out.update([need] if need and uses_client else [])
        (dropped if need else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    """Count the requests of each test, and end the servers that it left running."""
    global live_requests
    live_requests = 0
    yield
    if item.nodeid in outcomes:
        outcomes[item.nodeid]["requests"] = str(live_requests)
    while open_clients:
        with contextlib.suppress(BaseException):
            open_clients.pop().stop()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the outcome of each test."""
    if report.when == "call" or report.outcome != "passed":
        if isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
        else:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message.strip().splitlines()[0] if crash and crash.message else ""
        outcomes[report.nodeid] = {"outcome": report.outcome, "reason": reason}


def pytest_sessionfinish() -> None:
    """Write what came of it."""
    result = {"outcomes": outcomes, "left_out": left_out}
    Path(os.environ["COMPAT_RESULT"]).write_text(json.dumps(result))
