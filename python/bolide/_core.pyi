"""The compiled half of Bolide: the reactor, HTTP, routing, and the calling of native handlers."""

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from selectors import BaseSelector, SelectorKey
from typing import Any, Protocol, Self, final, type_check_only

__all__ = [
    "AsgiApp",
    "FileWrapper",
    "Load",
    "MountedApp",
    "NativeApp",
    "Request",
    "Response",
    "Selector",
    "Server",
    "Siblings",
    "Stream",
    "WsgiApp",
    "__version__",
    "ceiling",
    "complete_response",
    "field_line",
    "follow",
    "is_release_build",
    "settings",
    "selector",
]

_FieldLines = Mapping[str, str] | Iterable[tuple[str, str]]

@type_check_only
class _Iterable(Protocol):
    """An iterable that is no dict, list or set: those have no hash, and are JSON's to send."""

    def __iter__(self) -> Iterator[bytes | str]: ...
    def __hash__(self) -> int: ...

_Parts = Iterator[bytes | str] | _Iterable | AsyncIterable[bytes | str]
_Content = bytes | bytearray | memoryview | str | _Parts
_Body = bytes | Iterator[bytes | str] | AsyncIterator[bytes | str] | None

__version__: str
is_release_build: bool
"""False for a core that was built for tests, which is slower."""

def settings() -> list[tuple[str, str, int, str, str]]:
    """Return every limit and timeout: name, kind ("limit" or "timeout"), default, unit, help."""

def ceiling(host: str, port: int, size: int, seconds: float | None = None) -> int:
    """Respond without parsing for `seconds`, or until a signal; give how many responses.

    Raises:
        OSError: The address cannot be bound.
        ValueError: `host` is no IP address.
    """

def complete_response(
    kind: type[Response],
    *,
    json_encode: Callable[[Any], bytes],
    sendable: Callable[[Any], _Body],
    header_pairs: Callable[[_FieldLines], dict[str, str] | Iterable[tuple[str, str]]],
    content_type_line: Callable[[str], bytes],
    text_type_line: Callable[[str], bytes],
    checked_status: Callable[[Any], int],
) -> None:
    """Have the core construct `bolide.Response`, which `kind` is.

    The functions do what few responses need, and `json_encode` what any value does that is sent as
    JSON. Those of the first call stay.

    Raises:
        TypeError: `kind` is not derived from `Response`.
    """

def field_line(name: str, value: str) -> bytes:
    """Encode one field line of a response with its line end, in latin-1.

    Whitespace around the value is no part of it and dropped. RFC 9110 §5.1, §5.5.

    Raises:
        TypeError: Name or value is not a str.
        ValueError: The name is no token, the field belongs to the server, or the value has a
            control character or one beyond latin-1.
    """

@final
class Load:
    """A load run in threads of its own, as a plan says.

    The plan's keys (* needed): `address`* ("IP:PORT", "[IPV6]:PORT" or "unix:PATH"), `threads` 1,
    `connections` 100, `pipeline_depth` 1, `is_persistent` True, `http_version` "1.1" or "1.0",
    `source_addresses` (list of str), `cpus` (list of int), `is_sleepless` False, `warm_up_s` 0,
    `timeout_s` 5, `deadline_s` None, `requests`* (list of dict); one of `duration_s`,
    `requests_total` and `stages` (list of dict: `duration_s` with `rate_per_s` or `connections`,
    the first one also `start_rate_per_s` or `start_connections`); `rate_per_s` (open loop).

    A request's keys: `method` "GET", `target` "/", `host` (made from the address), `field_lines`
    (list of tuples), `content` (bytes), `weight` 1, `expected_status` (None: 200 to 299),
    `expected_length` (None: that of the first response), `is_any_length` False, `expected_content`
    (bytes), `is_template` False (True: head and content as in the first response, but for Date).
    """

    def __new__(cls, plan: dict[str, Any]) -> Self:
        """Read a plan.

        Raises:
            ValueError: A key that there is not, or values that contradict themselves; one line.
        """

    def start(self) -> None:
        """Begin, and return at once.

        Raises:
            OSError: The machine cannot, because of its limit of descriptors or threads.
            RuntimeError: It was started before.
        """

    def wait(self, timeout_s: float) -> bool:
        """Wait, and tell whether the run has ended; other threads run meanwhile."""

    def stop(self) -> None:
        """End the run early; the report covers the time until there."""

    def progress(self) -> str:
        """Return as a JSON object what it is doing, and what has come since the last call."""

    def report(self) -> str:
        """Return as a JSON object what came of it.

        Raises:
            RuntimeError: It has not ended.
        """

class Request:
    """One request. Nothing is decoded before it is asked for; unkept objects are used again."""

    def __new__(cls) -> Self: ...
    @property
    def method(self) -> str:
        """The method, as received."""

    @property
    def path(self) -> str:
        """The path, percent-decoded; what is not UTF-8 is U+FFFD."""

    @property
    def raw_path(self) -> bytes:
        """The path as received, without the query."""

    @property
    def query_string(self) -> bytes:
        """The query as received, without the question mark."""

    @property
    def http_version(self) -> str:
        """The protocol version, "1.0" or "1.1"."""

    @property
    def scheme(self) -> str:
        """The scheme, "http"."""

    @property
    def client(self) -> tuple[str, int] | None:
        """Address and port of the client; None on a UNIX socket."""

    @property
    def server(self) -> tuple[str, int] | None:
        """Address and port that the client reached; None on a UNIX socket."""

    @property
    def host(self) -> str:
        """The authority of the target, or the value of Host (RFC 9112 section 3.3)."""

    @property
    def path_params(self) -> dict[str, Any]:
        """The parameters of the path by name, converted."""

    def field_lines(self) -> list[tuple[str, str]]:
        """Return every field line in order: name in lower case, value as Latin-1 text."""

    @property
    def cache(self) -> dict[str, Any]:
        """What was derived from this request; empty for each."""

    @property
    def app(self) -> Any:
        """The application that responds to it."""

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has left, or the response is complete; False in a first step."""

    def disconnected(self) -> Awaitable[None]:
        """Await until the client has left, or the response is complete; in async handlers only.

        Raises:
            RuntimeError: In a `def` handler.
        """

    def read(self) -> bytes:
        """Return the whole content; in `def` handlers only."""

    def receive(self) -> Awaitable[bytes | None]:
        """Await the next part of the content, None at its end.

        Raises:
            ClientDisconnected: The peer is gone, or the request has its response already.
        """

@final
class Siblings:
    """Processes that accept from the same listening sockets; made before they are forked."""

    def __new__(cls, count: int) -> Self:
        """Make room for so many, none of which accepts yet.

        Raises:
            OSError: No memory or descriptor is left.
        """

    def clear(self, index: int) -> None:
        """Say that one has ended."""

@final
class Stream:
    """The sending side of a streamed response."""

    def send(self, data: bytes) -> Awaitable[None]:
        """Await until `data` is accepted into a bounded buffer.

        Raises:
            ClientDisconnected: The peer is gone.
        """

@final
class NativeApp:
    """The router and the handlers of an application."""

    def __new__(
        cls,
        *,
        app: Any,
        request_type: type[Request],
        on_error: Callable[[Any, Exception], Any],
        on_status: Callable[[Any, int, str], Any],
        stream_async: Callable[[Stream, Any], Coroutine[Any, Any, None]],
        disconnected: type[BaseException],
    ) -> Self: ...
    def add_route(
        self,
        method: str,
        pattern: str,
        handler: Callable[..., Any],
        parameters: list[str],
        keyword_parameters: list[str],
        is_async: bool,
    ) -> None:
        """Add a route.

        Raises:
            ValueError: The pattern cannot be read, or the route exists; one plain sentence.
        """

class Response:
    """What `bolide.Response` is derived from; see there."""

    status: int
    """200 to 599, which is checked when it is sent."""
    body: _Body
    """What will be sent; text reads as the bytes that it is sent as."""

    def __init__(
        self,
        body: _Content | None = None,
        status: int = 200,
        headers: _FieldLines | None = None,
        content_type: str | None = None,
        *,
        text: str | None = None,
        json: Any = ...,
    ) -> None: ...
    @property
    def raw_headers(self) -> bytes:
        """The encoded field lines, without those that the server adds."""

    def add_header(self, name: str, value: str) -> None:
        """Add a field line behind those of the same name.

        Raises:
            TypeError: `name` or `value` is not a str.
            ValueError: The field line is malformed or the server's to set.
        """

@final
class Selector:
    """The reactor as a `selectors.BaseSelector`: asyncio waits in it, HTTP is served meanwhile."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey: ...
    def unregister(self, fileobj: Any) -> SelectorKey: ...
    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey: ...
    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]: ...
    def get_key(self, fileobj: Any) -> SelectorKey: ...
    def get_map(self) -> Mapping[Any, SelectorKey]: ...
    def wake(self) -> None:
        """End the wait, or the next one; for any thread."""

    def close(self) -> None: ...

def follow(fd: int, grace_ms: int) -> None:
    """Kill this process some time after the end of a pipe, whatever it does then.

    Raises:
        OSError: No descriptor or thread is left.
        ValueError: The descriptor is negative.
    """

def selector(server: Server) -> BaseSelector:
    """Return the server's reactor as a selector for `asyncio.SelectorEventLoop`."""

@final
class AsgiApp:
    """An ASGI application, and what the scopes of its requests begin with."""

    def __new__(
        cls,
        app: Callable[..., Any],
        *,
        as_coroutine: Callable[..., Any],
        run_in_task: Callable[..., Any],
        root_path: str,
        state: dict[str, Any] | None,
        disconnected: type[Exception],
        extensions: Sequence[str],
    ) -> Self:
        """Take an ASGI 3 callable; each request has a shallow copy of `state`.

        `as_coroutine(awaitable)` gives a coroutine that awaits it, `run_in_task(app, scope,
        receive, send)` one that calls the application and awaits that.

        `extensions` names those that are offered on demand: "pathsend", "zerocopysend".
        """

@final
class WsgiApp:
    """A WSGI application, and what the environs of its requests begin with."""

    def __new__(
        cls,
        app: Callable[..., Any],
        *,
        root_path: str,
        errors: Any,
        disconnected: type[Exception],
    ) -> Self:
        """Take a callable of PEP 3333; `errors` is the stream `wsgi.errors`."""

    @property
    def threads(self) -> int:
        """Threads that are to call `run_thread`; 0 when the server's own calls the application."""

    def run_thread(self) -> None:
        """Respond to requests until `close`.

        Raises:
            RuntimeError: There are as many threads as there should be, or no server.
        """

    def run_reports(self) -> None:
        """Log what the server has to say of its queue until `close`."""

    def close(self) -> None:
        """End the threads, each when it has responded to its request."""

    @property
    def dropped_fields(self) -> int:
        """Fields that no environ holds because their name has an underscore."""

@final
class FileWrapper:
    """What `wsgi.file_wrapper` makes: reads a file from where it stands, block by block."""

    def __new__(cls, file: Any, block_bytes: int = 65536, /) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def close(self) -> None:
        """Close the file, if it can be closed."""

@final
class MountedApp:
    """A native application, and others below prefixes."""

    def __new__(cls, native: NativeApp, mounts: Sequence[tuple[str, AsgiApp | WsgiApp]]) -> Self:
        """Take applications by prefix: "/" or segments, decoded, without a slash at the end."""

@final
class Server:
    """One worker's reactor with HTTP on it."""

    def __new__(
        cls, app: NativeApp | AsgiApp | WsgiApp | MountedApp, options: dict[str, Any]
    ) -> Self:
        """Make a server without listeners.

        `options` may hold every name of `settings()`, `server_header` (bool), `access_log` (a
        descriptor or None), `access_log_format` ("combined" or "json"), `eager_tasks` (bool), and
        for WSGI `threads` and `workers` (counts).
        """

    def join(self, siblings: Siblings, index: int) -> None:
        """Share the connections of its listeners with other processes, as one of them.

        Raises:
            IndexError: There are not so many.
            OSError: The others cannot wake this one.
        """

    def add_listener(self, fd: int, backlog: int) -> None:
        """Serve a listening socket, in which `backlog` connections may wait.

        The descriptor is duplicated.
        """

    def adopt(self, fd: int) -> None:
        """Serve a connection that is accepted already; the descriptor is duplicated."""

    def tasks_changed(self) -> None:
        """Tell that the loop has another task factory or debug mode, which its next task shows."""

    def attach(self, event_loop: asyncio.AbstractEventLoop, *, own_selector: bool) -> None:
        """Bind it to the running loop; without our selector the loop watches `fileno()`."""

    def fileno(self) -> int:
        """Return the epoll descriptor: readable when a pass is due."""

    def poll(self) -> None:
        """Run one pass without waiting."""

    def drain(self) -> None:
        """Stop accepting, close idle connections, end every other with its next response."""

    def running_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of handlers that have not ended, whether they responded or not."""

    def on_drained(self, callback: Callable[[], Any]) -> None:
        """Call back once when a drain is asked for, and no connection and no handler is left."""

    def stop(self) -> tuple[int, int]:
        """Close everything now; requests of whose responses nothing was sent have a 503.

        Give how many those were, and how many responses were cut.
        """

    @property
    def connections(self) -> int:
        """The number of open connections."""

    @property
    def connection_bytes_max(self) -> int:
        """Bytes that one connection can make the server hold."""
