"""The compiled part of Bolide: the reactor, HTTP, routing, and calls of native handlers."""

import asyncio
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from selectors import BaseSelector, SelectorKey
from types import FrameType
from typing import Any, NoReturn, Self, final

from bolide._core_native import Body, FieldLines
from bolide._core_native import NativeApp as NativeApp
from bolide._core_native import Request as Request
from bolide._core_native import Response as Response
from bolide._core_native import Stream as Stream
from bolide._core_native import Tls as Tls
from bolide._core_native import WebSocket as WebSocket
from bolide._core_tls import CertificateFacts as CertificateFacts
from bolide._core_tls import RevocationFacts as RevocationFacts
from bolide._core_tls import TicketSecret as TicketSecret
from bolide._core_tls import TlsConfig as TlsConfig

__all__ = [
    "AsgiApp",
    "CertificateFacts",
    "Counts",
    "FileWrapper",
    "Load",
    "MountedApp",
    "NativeApp",
    "Request",
    "Response",
    "RevocationFacts",
    "Selector",
    "Server",
    "Siblings",
    "Stream",
    "TicketSecret",
    "Tls",
    "TlsConfig",
    "WebSocket",
    "WsgiApp",
    "__version__",
    "ceiling",
    "check_access_log_format",
    "complete_response",
    "field_line",
    "follow",
    "is_release_build",
    "memory_file",
    "merged_progress",
    "merged_report",
    "metrics",
    "opened_key",
    "self_signed",
    "settings",
    "share_client_rates",
    "selector",
    "widen_signal_stack",
]

__version__: str
is_release_build: bool
"""False for a core that was built with the dev profile, which is slower."""

def settings() -> list[tuple[str, str, int, str, str]]:
    """Return every limit and timeout: name, kind ("limit" or "timeout"), default, unit, help."""

def share_client_rates() -> None:
    """Have processes that are forked later count the requests of each client together."""

def check_access_log_format(text: str) -> None:
    """Check a format of the access log.

    Raises:
        ValueError: it is none; the message is the end of a sentence that starts with it.
    """

def metrics() -> list[tuple[str, str, str, str, list[tuple[str, list[str]]], list[float]]]:
    """Return every family of numbers that a server counts, in the order of `Counts.read`.

    Each is a name, a kind ("counter", "gauge" or "histogram"), a unit, a help text, labels with
    their values, and the bounds of a histogram. A family has a number for each combination of its
    labels' values. A histogram has one for each bound, one for larger values, and the sum in
    nanoseconds.
    """

def ceiling(
    host: str,
    port: int,
    size: int,
    seconds: float | None = None,
    pair: tuple[bytes, bytes] | None = None,
) -> int:
    """Respond without parsing for `seconds`, or until a signal; return the number of responses.

    `pair` is a certificate and its key, both in PEM, with which connections use TLS.

    Raises:
        OSError: The address cannot be bound.
        ValueError: `host` is not an IP address, or the pair cannot be used.
    """

def complete_response(
    kind: type[Response],
    *,
    json_encode: Callable[[Any], bytes],
    sendable: Callable[[Any], Body],
    header_pairs: Callable[[FieldLines], dict[str, str] | Iterable[tuple[str, str]]],
    content_type_line: Callable[[str], bytes],
    text_type_line: Callable[[str], bytes],
    checked_status: Callable[[Any], int],
    refuse_keywords: Callable[[dict[str, Any]], NoReturn],
) -> None:
    """Let the core construct `bolide.Response`, which `kind` is.

    `json_encode` encodes values that are sent as JSON; the other functions handle rare cases. Only
    the functions of the first call are used.

    Raises:
        TypeError: `kind` is not derived from `Response`.
    """

def field_line(name: str, value: str) -> bytes:
    """Encode one field line of a response with its line end, in Latin-1.

    Whitespace around the value is not part of it and is dropped. RFC 9110 §5.1, §5.5.

    Raises:
        TypeError: The name or the value is not a str.
        ValueError: The name is not a token, the server sets the field itself, or the value contains
            a control character or one that is not in Latin-1.
    """

@final
class Load:
    """A load run in its own threads, according to a plan.

    The plan's keys (* needed): `address`* ("IP:PORT", "[IPV6]:PORT" or "unix:PATH"), `threads` 1,
    `connections` 100, `pipeline_depth` 1, `is_persistent` True, `http_version` "1.1", "1.0" or
    "2" (with `streams` 1 instead of `pipeline_depth`),
    `source_addresses` (list of str), `cpus` (list of int), `is_sleepless` False, `ramp_up_s` 0,
    `warm_up_s` 0, `timeout_s` 5, `deadline_s` None, `requests`* (list of dict); one of
    `duration_s`, `requests_total` and `stages` (list of dict: `duration_s` with `rate_per_s` or
    `connections`, the first one also `start_rate_per_s` or `start_connections`); `rate_per_s` (open
    loop). `part` (`threads_before`, `threads_all`) makes it a part of a load of several runs, to
    which connections, requests and rates then apply. With `is_gated` the load waits for `begin`.

    A request's keys: `method` "GET", `target` "/", `host` (made from the address), `field_lines`
    (list of tuples), `content` (bytes), `weight` 1, `expected_status` (None: 200 to 299),
    `expected_length` (None: that of the first response), `is_any_length` False, `expected_content`
    (bytes), `is_template` False (True: head and content as in the first response, but for Date).
    """

    def __new__(cls, plan: dict[str, Any]) -> Self:
        """Read a plan.

        Raises:
            ValueError: A key is unknown, or values contradict each other; the message is one line.
        """

    def start(self) -> None:
        """Start, and return at once.

        Raises:
            OSError: The limit of descriptors or threads is too low.
            RuntimeError: It was started before.
        """

    def wait(self, timeout_s: float) -> bool:
        """Wait, and return whether the run has ended; other threads run meanwhile."""

    def is_ready(self) -> bool:
        """Return whether the connections of a gated run are open, as far as they could be."""

    def begin(self, at_ns: int) -> None:
        """Start the load of a gated run at this time of the monotonic clock."""

    def stop(self) -> None:
        """End the run early; the report covers the time until then."""

    def snapshot(self) -> str:
        """Return the progress since the last call in the form that `merged_progress` takes."""

    def record(self) -> str:
        """Return the counts of the run in the form that `merged_report` takes.

        Raises:
            OSError: A thread could not start.
            RuntimeError: The run has not ended.
        """

    def progress(self) -> str:
        """Return the progress since the last call, as a JSON object."""

    def report(self) -> str:
        """Return the report of the run, as a JSON object.

        Raises:
            RuntimeError: The run has not ended.
        """

def merged_progress(snapshots: Sequence[str]) -> str:
    """Return the progress of runs that take place at the same time, as a JSON object.

    Raises:
        ValueError: There is none, or one is not what `Load.snapshot` returns.
    """

def merged_report(records: Sequence[str]) -> str:
    """Return the report of runs that took place at the same time, as a JSON object.

    Counts and histograms are added up; percentiles are those of the sum.

    Raises:
        ValueError: There is none, or one is not what `Load.record` returns.
    """

@final
class Siblings:
    """Processes that accept from the same listening sockets; created before the fork."""

    def __new__(cls, count: int) -> Self:
        """Prepare for `count` processes, none of which accepts yet.

        Raises:
            OSError: No memory or descriptor is left.
        """

    def clear(self, index: int) -> None:
        """Mark a process as ended."""

@final
class Counts:
    """Where one worker counts for the metrics, in memory that is shared with its supervisor."""

    def __new__(cls) -> Self:
        """Prepare zeros, before the worker is forked.

        Raises:
            OSError: No memory is left.
        """

    def read(self) -> list[int]:
        """Return the numbers as they are now."""

    @property
    def busy_since_ms(self) -> int:
        """Since which monotonic ms it has not looked for events; 0 while it waits for them."""

    def slow_routes(self) -> list[tuple[str, int, float, int]]:
        """Return routes with slow requests: how many, their seconds, since which monotonic ms."""

    def clear(self) -> None:
        """Set all to zero, after the worker has ended."""

@final
class Selector:
    """The reactor as a `selectors.BaseSelector`: while asyncio waits in it, HTTP is served."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey: ...
    def unregister(self, fileobj: Any) -> SelectorKey: ...
    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey: ...
    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]: ...
    def get_key(self, fileobj: Any) -> SelectorKey: ...
    def get_map(self) -> Mapping[Any, SelectorKey]: ...
    def wake(self) -> None:
        """End the current or the next wait; may be called from any thread."""

    def close(self) -> None: ...

def follow(fd: int, grace_ms: int) -> None:
    """Kill this process `grace_ms` after the pipe `fd` is closed, whatever it is doing then.

    Raises:
        OSError: No descriptor or thread is left.
        ValueError: The descriptor is negative.
    """

def widen_signal_stack() -> None:
    """Give this thread a stack on which the handlers of all signals fit at once.

    Raises:
        OSError: A handler is running on another such stack.
    """

def memory_file(content: bytes) -> int:
    """Write bytes to a file that is only in memory; return a descriptor, which the caller closes.

    Raises:
        OSError: No descriptor or memory is left.
    """

def opened_key(key: bytes, password: bytes) -> bytes:
    """Return a key in PEM without its password, or as it is if it has none.

    Raises:
        ValueError: It cannot be opened. The arguments are those of `TlsConfig`, with index 0.
    """

def self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    """Make a self-signed certificate for names and addresses, and its key, both in PEM.

    Raises:
        OSError: A name is not one, or the system has no random numbers.
    """

def selector(server: Server) -> BaseSelector:
    """Return the server's reactor as a selector for `asyncio.SelectorEventLoop`."""

@final
class AsgiApp:
    """An ASGI application, and the constant part of its scopes."""

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
        """Wrap an ASGI 3 callable; each request gets a shallow copy of `state`.

        `as_coroutine(awaitable)` returns a coroutine that awaits it, `run_in_task(app, scope,
        receive, send)` one that calls the application and awaits the result.

        `extensions` names the optional ones to offer: "pathsend", "zerocopysend".
        """

@final
class WsgiApp:
    """A WSGI application, and the constant part of its environs."""

    def __new__(
        cls,
        app: Callable[..., Any],
        *,
        root_path: str,
        errors: Any,
        disconnected: type[Exception],
    ) -> Self:
        """Wrap a callable of PEP 3333; `errors` is the stream `wsgi.errors`."""

    @property
    def threads(self) -> int:
        """Threads that must call `run_thread`; 0 if the server's own calls the application."""

    @property
    def busy_threads(self) -> int:
        """Threads that run a call, also for a client that has its response or has left."""

    @property
    def abandoned_threads(self) -> int:
        """Threads that run a call for a client that has its response or has left."""

    def run_thread(self) -> None:
        """Serve requests until `close`.

        Raises:
            RuntimeError: All threads are running already, or there is no server.
        """

    def run_reports(self) -> None:
        """Log the server's messages about its queue until `close`."""

    def close(self) -> None:
        """End the threads, each after it has responded to its request."""

    def note_unfinished_line(self, is_unfinished: bool) -> None:
        """Note whether this thread has left a line of `errors` unfinished, to be flushed later."""

    @property
    def dropped_fields(self) -> int:
        """Fields that were omitted from environs because their name contains an underscore."""

@final
class FileWrapper:
    """The object that `wsgi.file_wrapper` returns: reads a file from its position in blocks."""

    def __new__(cls, file: Any, block_bytes: int = 65536, /) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def close(self) -> None:
        """Close the file if it has a `close` method."""

@final
class MountedApp:
    """A native application with others mounted at prefixes."""

    def __new__(cls, native: NativeApp, mounts: Sequence[tuple[str, AsgiApp | WsgiApp]]) -> Self:
        """Mount applications by prefix: "/" or decoded segments, without a slash at the end."""

@final
class Server:
    """One worker's reactor, serving HTTP."""

    def __new__(
        cls, app: NativeApp | AsgiApp | WsgiApp | MountedApp, options: dict[str, Any]
    ) -> Self:
        """Create a server without listeners.

        `options` may contain every name of `settings()`, `server_header` (bool), `h2c` (bool),
        `access_log` (a descriptor or None), `access_log_format` ("combined", "json" or a template),
        `access_log_sample` (0 to 1), `access_log_only` (a list of "errors" and "slow"),
        `access_log_slow_ms`,
        `eager_tasks` (bool), `debug_log` (bool: details are logged at debug level),
        `redirects_to_https` (bool: requests are only redirected), `tls` (a `TlsConfig` or None: its
        listeners then use TLS), `websocket_compression` ("on", "context"
        or "off"), `websocket_compression_level` (1 to 9), `websocket_origins` (a list),
        `draining_idle_ms` (how long a drain keeps idle connections: 500 without it), and for WSGI
        `threads` and `workers` (counts). `request_id` is None, or the name of the field with the
        ids of requests and whether responses have it. `slow_request_ms` (0: off) is the time after
        which `slow_requests` has a request.
        """

    def join(self, siblings: Siblings, index: int) -> None:
        """Share the connections of its listeners with the other processes.

        Raises:
            IndexError: `index` is not below their count.
            OSError: The others cannot wake this one.
        """

    def measure(self, counts: Counts) -> None:
        """Count from now on, where no other server counts.

        Raises:
            RuntimeError: It was called inside a handler.
        """

    def slow_requests(
        self, count_max: int
    ) -> (
        tuple[
            list[tuple[str, float, bool, asyncio.Task[Any] | None, int | None]],
            list[tuple[str, float]],
            int,
            dict[int, FrameType],
        ]
        | None
    ):
        """Return what is new about slow requests, at most `count_max` of them; None if nothing is.

        First those that run: method and path, age in seconds, whether the loop's thread calls the
        application for it now, its task, and the thread of a pool that runs it. Then those that
        have ended, with the seconds they took; how many there were no room for; and the frames of
        all threads at that moment. Any thread may call it.
        """

    def renew_tls(self, tls: TlsConfig) -> None:
        """Use other certificates, keys and rules for new connections, if it uses TLS.

        Raises:
            RuntimeError: It was called inside a handler.
        """

    def reopen_access_log(self, fd: int) -> None:
        """Continue the access log, if there is one, in another file; `fd` is duplicated.

        Raises:
            RuntimeError: It was called inside a handler.
        """

    def add_listener(self, fd: int, backlog: int) -> None:
        """Serve a listening socket, in whose backlog `backlog` connections may wait.

        The descriptor is duplicated.
        """

    def adopt(self, fd: int) -> None:
        """Serve an established connection, with TLS if the server uses it.

        The descriptor is duplicated.
        """

    def tasks_changed(self) -> None:
        """Notify the server of a new task factory or debug mode of the loop."""

    def attach(self, event_loop: asyncio.AbstractEventLoop, *, own_selector: bool) -> None:
        """Bind the server to the running loop; without our selector the loop watches `fileno()`."""

    def fileno(self) -> int:
        """Return the epoll descriptor: readable when a pass is due."""

    def poll(self) -> None:
        """Run one pass without waiting."""

    def poll_posted(self) -> None:
        """Run the pass for which the loop was woken."""

    def drain(self) -> None:
        """Stop accepting, close idle connections, and all others after their next response."""

    def running_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of handlers that have not ended, whether they responded or not."""

    def on_drained(self, callback: Callable[[], Any]) -> None:
        """Call back once when, after `drain`, no connection and no handler is left."""

    def on_requests(self, count: int, callback: Callable[[], Any]) -> None:
        """Call back once when there have been `count` requests, refused ones included."""

    def stop(self) -> tuple[int, int]:
        """Close everything now; requests whose response has not started get 503.

        Return the number of these requests, and the number of truncated responses.
        """

    @property
    def connections(self) -> int:
        """The number of open connections."""

    @property
    def connection_bytes_max(self) -> int:
        """The maximum number of bytes that the server holds for one connection."""
