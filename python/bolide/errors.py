"""The exceptions of Bolide's Python side.

Every exception that Bolide itself raises deliberately derives from `Error`, so that a caller can
distinguish ours from others. This module imports nothing of the package: the command line, the
server and the micro-framework all depend on it.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

__all__ = [
    "ClientDisconnected",
    "ConfigError",
    "Error",
    "HTTPError",
    "RegistrationError",
    "SignatureError",
    "StartupError",
    "WebSocketClosed",
    "reason_phrase",
]

# RFC 9110 §15.5 renamed these; `http.HTTPStatus` has the new names since Python 3.13.
_RENAMED = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}

_KEYWORDS_OF_OTHERS = {
    "code": "status",
    "description": "message",
    "detail": "message",
    "status_code": "status",
}
"""Of Flask's and Starlette's exceptions, and ours."""


def reason_phrase(status: int) -> str:
    """Return the registered name of a status code, or "" if it is not registered.

    RFC 9110 §15.
    """
    if status in _RENAMED:
        return _RENAMED[status]
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


class Error(Exception):
    """The base class of every exception that Bolide raises deliberately."""


class ConfigError(Error):
    """A user's mistake, described in one line, which the command line prints."""


class StartupError(Error):
    """The application's startup failed, or its worker exited; `details` is a traceback or empty."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class RegistrationError(ConfigError, ValueError):
    """A route, an error handler or a hook that is not valid; the text says why."""


class SignatureError(RegistrationError, TypeError):
    """A handler whose parameters do not match the arguments that it would be called with."""


class ClientDisconnected(Error, ConnectionError):  # noqa: N818 - the event's name, as in ASGI's http.disconnect
    """The client disconnected before its request was read or its response was sent."""


class WebSocketClosed(ClientDisconnected):
    """A WebSocket is closed: nothing more can be received or sent.

    `code` is that of the first close frame. The client's: 1005 if its close frame has none, and
    1006 if the connection ended without one (RFC 6455 §7.1.5). Or the server's: 1002, 1007 or 1009
    if the client broke a rule or a limit, 1011 if it did not respond to a ping, 1012 on shutdown,
    1013 if it receives too slowly or there is no memory. `reason` is the text of that frame.
    """

    code: int
    reason: str

    def __init__(self, code: int, reason: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(code, reason)

    def __str__(self) -> str:
        """Return the code, and the reason if there is one."""
        return f"{self.code}: {self.reason}" if self.reason else str(self.code)


class HTTPError(Error):
    """An error that a handler raises in order to respond with a status.

    `status` is an int from 400 to 599, `message` a sentence for the client ("" if there is none),
    and `headers` are additional header fields of the response as pairs, as `Response(headers=...)`
    takes them.

    Raises:
        ValueError: the status is not from 400 to 599.
    """

    status: int
    message: str
    headers: tuple[tuple[str, str], ...]

    if not TYPE_CHECKING:  # a type checker reports an unknown keyword

        def __new__(cls, *arguments, **named):  # noqa: D102 - as Exception's
            if cls.__init__ is HTTPError.__init__:
                for name in filter(_KEYWORDS_OF_OTHERS.__contains__, named):
                    ours = _KEYWORDS_OF_OTHERS[name]
                    raise TypeError(f"HTTPError takes no {name}=: use {ours}=")
            return super().__new__(cls, *arguments, **named)

    def __init__(
        self,
        status: int,
        message: str = "",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> None:
        if not isinstance(status, int) or not 400 <= status <= 599:
            raise ValueError(f"HTTPError takes a status from 400 to 599, not {status!r}")
        self.status = int(status)
        self.message = message
        self.headers = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        super().__init__(self.status, self.message, self.headers)

    def __str__(self) -> str:
        """Return the text of the default response: "404 Not Found", and the message if any."""
        title = f"{self.status} {reason_phrase(self.status)}".rstrip()
        return f"{title}: {self.message}" if self.message else title
