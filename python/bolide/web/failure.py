"""The response when a handler fails, or when the router finds none.

The core calls `FailureTable.respond` with an exception and `FailureTable.respond_to_status` with a
status of the router. Both return a value to send, as a handler would. The client never sees a
traceback: it is logged once, by the logger "bolide.error".
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from bolide import _core
from bolide.errors import ClientDisconnected, HTTPError, RegistrationError
from bolide.web.handler import ErrorHandler
from bolide.web.response import Response
from bolide.web.routing import describe

__all__ = ["ErrorKey", "FailureTable"]

ErrorKey = type[Exception] | int | Literal["4xx", "5xx"]
"""What an error handler is for: an exception class, a status, or a class of statuses."""

_STATUS_CLASSES: Final = ("4xx", "5xx")  # RFC 9110 §15.5, §15.6

_logger = logging.getLogger("bolide.error")
_PLAIN_500: Final = Response(text="500 Internal Server Error\n", status=500)


class FailureTable:
    """The error handlers of an application, by exception class, status and class of statuses."""

    def __init__(self) -> None:
        self._handlers: dict[type[BaseException] | int | str, ErrorHandler] = {}
        self.debugger: Callable[[_core.Request, BaseException], _core.Response | None] | None = None
        """Shows an unexpected exception to some clients, for development."""

    def add(self, handler: ErrorHandler, *keys: ErrorKey) -> None:
        """Register a handler for all of the keys, or for none of them.

        A key is an exception class, a status from 400 to 599, or "4xx" or "5xx".

        Raises:
            RegistrationError: a key is not valid or has a handler, or there is no key.
        """
        if not keys:
            raise RegistrationError(
                f"the error handler {describe(handler)} has no exception class or status"
            )
        for key in keys:
            if not _is_key(key):
                raise RegistrationError(
                    "an error handler is for an Exception class or a status from 400 to 599 "
                    f'("4xx" and "5xx" for all of a kind), not {key!r}'
                )
            if key in self._handlers:
                taken = describe(self._handlers[key])
                raise RegistrationError(f"{key!r} has an error handler already, {taken}")
        self._handlers.update(dict.fromkeys(keys, handler))

    def respond(self, request: _core.Request, error: BaseException) -> Any:
        """Return what to send for an exception: a value, or a coroutine that returns it.

        An unexpected exception is logged: one that has no handler, or only that of `Exception` or
        of status 500. If the handler fails too, both exceptions are logged and the response is a
        plain 500. If it returns something that cannot be sent, the core logs that and sends 500.
        """
        handler, is_expected = self._find(error)
        if not is_expected:
            _log(request, error)
        try:
            default = self._default_response
            value = default(request, error) if handler is None else handler(request, error)
        except Exception as second:
            return self._respond_second(request, second, error if is_expected else None)
        if inspect.isawaitable(value):
            return self._finish(request, value, error if is_expected else None)
        return value

    def expects(self, error: BaseException) -> bool:
        """Return whether an error handler is for this exception in particular."""
        handler, is_expected = self._find(error)
        return handler is not None and is_expected

    def respond_to_status(self, request: _core.Request, status: int, allow: str) -> Any:
        """Return what to send for a status from the router; `allow` is "" except for 405.

        RFC 9110 §15.5.6: a 405 lists the methods in its Allow field.
        """
        headers = {"Allow": allow} if allow else {}
        return self.respond(request, HTTPError(status, headers=headers))

    def _find(self, error: BaseException) -> tuple[ErrorHandler | None, bool]:
        """Find the most specific handler, and whether it means that the error was expected.

        The handlers of statuses rank where `HTTPError` is in the order of classes. An `HTTPError`
        is a response, so its search ends there and does not reach the handler of `Exception`.
        """
        handlers = self._handlers
        for cls in type(error).__mro__:
            if cls is HTTPError and isinstance(error, HTTPError):
                return self._first(error.status, _status_class(error.status), HTTPError), True
            if cls is Exception:
                break
            if cls in handlers:
                return handlers[cls], True
        if is_disconnection(error):  # there is no client to read a response
            return None, False
        return self._first(Exception, 500, "5xx"), False

    def _first(self, *keys: type[Exception] | int | str) -> ErrorHandler | None:
        return next((self._handlers[key] for key in keys if key in self._handlers), None)

    def _default_response(self, request: _core.Request, error: BaseException) -> _core.Response:
        if isinstance(error, HTTPError):
            return Response(text=f"{error}\n", status=error.status, headers=error.headers)
        shown = None if self.debugger is None else self.debugger(request, error)
        return _PLAIN_500 if shown is None else shown

    async def _finish(
        self, request: _core.Request, response: Awaitable[Any], first: BaseException | None
    ) -> Any:
        try:
            return await response
        except Exception as second:
            return self._respond_second(request, second, first)

    def _respond_second(
        self, request: _core.Request, second: Exception, first: BaseException | None
    ) -> _core.Response:
        """Return the response for an error handler that raised.

        `first` is the exception that it was called for, None if that is logged already. Any handler
        may raise `HTTPError` to choose a status; every other exception is a failure.
        """
        if isinstance(second, HTTPError):
            try:
                return self._default_response(request, second)
            except (TypeError, ValueError) as third:
                second = third
        if first is not None:
            _log(request, first)
        _log(request, second)
        return self._default_response(request, second)


def is_disconnection(error: BaseException) -> bool:
    """Return whether an exception says only that the client has left, as a group of such may."""
    if isinstance(error, BaseExceptionGroup):  # of a task group in which content is read or sent
        return error.split(ClientDisconnected)[1] is None
    return isinstance(error, ClientDisconnected)


def _is_key(key: object) -> bool:
    if isinstance(key, str):
        return key in _STATUS_CLASSES
    if isinstance(key, type):
        return issubclass(key, Exception)
    return isinstance(key, int) and 400 <= key <= 599


def _status_class(status: int) -> str:
    return f"{status // 100}xx"


def _log(request: _core.Request, error: BaseException) -> None:
    """Log an exception with its request; control characters in the path are escaped."""
    method, path, request_id = request.method, repr(request.path)[1:-1], request.id
    extra = None
    if request_id is not None:
        path, extra = f"{path} [{request_id}]", {"request_id": request_id}
    if is_disconnection(error):
        _logger.debug("%s %s: the client disconnected", method, path, extra=extra)
        return
    name = type(error).__qualname__
    _logger.error("%s %s raised %s", method, path, name, exc_info=error, extra=extra)
