"""Classes of `bolide._core` for native applications. At run time, only that module exists."""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Protocol, Self, final, type_check_only

FieldLines = Mapping[str, str] | Iterable[tuple[str, str]]

@type_check_only
class _Iterable(Protocol):
    """An iterable that is not a dict, list or set: these have no hash, and are sent as JSON."""

    def __iter__(self) -> Iterator[bytes | str]: ...
    def __hash__(self) -> int: ...

_Parts = Iterator[bytes | str] | _Iterable | AsyncIterable[bytes | str]
Content = bytes | bytearray | memoryview | str | _Parts
Body = bytes | Iterator[bytes | str] | AsyncIterator[bytes | str] | None

@final
class Tls:
    """The TLS session of a connection."""

    @property
    def version(self) -> str:
        """The version, "TLSv1.3" or "TLSv1.2"."""

    @property
    def cipher(self) -> str:
        """The cipher suite as OpenSSL and `ssl` name it: "TLS_AES_256_GCM_SHA384"."""

    @property
    def server_name(self) -> str | None:
        """The name that the client asked for (SNI); None if it asked for none."""

    @property
    def client_name(self) -> str | None:
        """The subject of the client's certificate (RFC 4514); None if it sent none."""

    @property
    def client_certificate(self) -> bytes | None:
        """The client's certificate in DER, which was verified; None if it sent none."""

    @property
    def client_chain(self) -> tuple[str, ...]:
        """The client's certificate in PEM, and those that it sent after it."""

class Request:
    """One request. Values are decoded on first use; objects without references are reused."""

    def __new__(cls) -> Self: ...
    @property
    def method(self) -> str:
        """The method, as received."""

    @property
    def path(self) -> str:
        """The path, percent-decoded; octets that are not UTF-8 become U+FFFD."""

    @property
    def raw_path(self) -> bytes:
        """The path as received, without the query."""

    @property
    def query_string(self) -> bytes:
        """The query as received, without the question mark."""

    @property
    def http_version(self) -> str:
        """The protocol version, "1.0", "1.1" or "2"."""

    @property
    def scheme(self) -> str:
        """The scheme, "http" or "https", according to the proxies that are trusted."""

    @property
    def id(self) -> str | None:
        """The request's id, of a trusted proxy or a new one; None unless `request_id` is on."""

    @property
    def root_path(self) -> str:
        """The start of the path that proxies have removed (X-Forwarded-Prefix); empty without."""

    @property
    def tls(self) -> Tls | None:
        """What is known of the connection's TLS session; None without TLS."""

    @property
    def client(self) -> tuple[str, int] | None:
        """The client's address and port, according to the proxies that are trusted.

        None on a UNIX socket, and if a proxy does not disclose it; the port is 0 if it is unknown.
        """

    @property
    def server(self) -> tuple[str, int] | None:
        """The address and port to which the client connected; None on a UNIX socket."""

    @property
    def host(self) -> str:
        """The authority of the request target, or the value of Host (RFC 9112 section 3.3)."""

    @property
    def path_params(self) -> dict[str, Any]:
        """The parameters of the path by name, converted."""

    def field_lines(self) -> list[tuple[str, str]]:
        """Return every field line in order: name in lower case, value as Latin-1 text."""

    @property
    def cache(self) -> dict[str, Any]:
        """Values derived from this request; empty at its start."""

    @property
    def app(self) -> Any:
        """The application that handles the request."""

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has left or the response is complete; False in a first step."""

    def disconnected(self) -> Awaitable[None]:
        """Wait until the client has disconnected or the response is complete; async handlers only.

        Raises:
            RuntimeError: In a `def` handler.
        """

    def read(self) -> bytes:
        """Return the whole content; in `def` handlers only."""

    def receive(self, whole: bool = False) -> Awaitable[bytes | None]:
        """Receive the next part of the content, None at its end.

        Args:
            whole: All that follows is one part, which the server holds until it is complete.

        Raises:
            ClientDisconnected: The client has disconnected, or the response is complete.
        """

class WebSocket(Request):
    """One WebSocket, and the request of its handshake."""

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order."""

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that was accepted."""

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent: it was accepted, and neither side has closed it."""

    @property
    def close_code(self) -> int | None:
        """The code with which it was closed, None before that."""

    @property
    def close_reason(self) -> str | None:
        """The reason with which it was closed, None before that."""

    def _accept(self, subprotocol: str | None, fields: bytes) -> Awaitable[None]: ...
    def _reject(self, response: Any) -> Awaitable[None]: ...
    def receive(self) -> Awaitable[Any]:  # type: ignore[override]
        """Receive the next message: a str for text, bytes for binary data.

        Raises:
            WebSocketClosed: It is closed, and all messages that arrived before were received.
        """

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[Any]: ...
    def send(self, message: str | bytes | bytearray | memoryview) -> Awaitable[None]:
        """Send a message: text for a str, binary data otherwise.

        The awaitable is done at once, unless the client is slow and much waits for it.

        Raises:
            TypeError: `message` is neither a str nor bytes.
            MemoryError: There is no memory for the message.
            WebSocketClosed: Either side has closed it.
            RuntimeError: The handler has refused it.
        """

    def close(self, code: int = 1000, reason: str = "") -> Awaitable[None]:
        """Close it, after what was sent; does nothing if the client has closed it.

        Raises:
            ValueError: The code may not be sent (RFC 6455 section 7.4).
            RuntimeError: The handler has refused it.
        """

    def subscribe(self, topic: str) -> None:
        """Receive what is published to a topic from now on.

        Raises:
            WebSocketClosed: Either side has closed it.
            RuntimeError: It subscribes to `websocket_topics_max` others.
            ValueError: The name has more than 256 bytes of UTF-8.
        """

    def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic.

        Raises:
            WebSocketClosed: Either side has closed it.
        """

@final
class Stream:
    """The sending side of a streamed response."""

    def send(self, data: bytes) -> Awaitable[None]:
        """Wait until `data` is accepted into a bounded buffer.

        Raises:
            ClientDisconnected: The client has disconnected.
        """

@final
class NativeApp:
    """The router and the handlers of an application."""

    def __new__(
        cls,
        *,
        app: Any,
        request_type: type[Request],
        websocket_type: type[WebSocket],
        on_error: Callable[[Any, BaseException], Any],
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
        body_bytes_max: int | None = None,
        handler_timeout_ms: int | None = None,
    ) -> None:
        """Add a route, possibly with bounds that differ from those of the server.

        Raises:
            ValueError: The pattern is malformed, or the route exists; the message is one sentence.
        """

    def add_websocket_route(
        self,
        pattern: str,
        handler: Callable[..., Any],
        parameters: list[str],
        keyword_parameters: list[str],
    ) -> None:
        """Add a route of WebSockets.

        Raises:
            ValueError: The pattern is malformed, or the route exists; the message is one sentence.
        """

    def publish(self, topic: str, message: str | bytes | bytearray | memoryview) -> None:
        """Send a message to all WebSockets of this process that subscribe to a topic.

        Raises:
            TypeError: `topic` is not a str, or `message` is neither a str nor bytes.
            ValueError: The name of the topic has more than 256 bytes of UTF-8.
            MemoryError: There is no memory for the message.
        """

class Response:
    """The base class of `bolide.Response`; see there."""

    status: int
    """200 to 599; checked when the response is sent."""
    def __init__(
        self,
        body: Content | None = None,
        status: int = 200,
        headers: FieldLines | None = None,
        content_type: str | None = None,
        *,
        text: str | None = None,
        json: Any = ...,
    ) -> None: ...
    @property
    def body(self) -> Body:
        """The content to send; text reads back as the bytes that are sent."""

    @body.setter
    def body(self, body: Body | str) -> None: ...
    @property
    def raw_headers(self) -> bytes:
        """The encoded field lines, without those that the server adds."""

    def add_header(self, name: str, value: str) -> None:
        """Add a field line after those of the same name.

        Raises:
            TypeError: `name` or `value` is not a str.
            ValueError: The field line is malformed, the server sets the field itself, or it is
                another content type.
        """
