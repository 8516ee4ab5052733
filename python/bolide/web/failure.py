"""What is answered when a handler fails, or when the router finds none.

The core calls `FailureTable.answer` with an exception and `FailureTable.answer_status` with a
status of its own; either gives a value to send, as a handler would. Nothing of a traceback ever
reaches the client: it goes to the logger "bolide.error", once.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bolide import _core
from bolide.errors import ClientDisconnected, HTTPError, RegistrationError
from bolide.web.response import Response
from bolide.web.routing import describe

__all__ = ["ErrorHandler", "FailureTable"]

ErrorHandler = Callable[[Any, Any], Any]

_logger = logging.getLogger("bolide.error")
_PLAIN_500: Final = Response(text="500 Internal Server Error\n", status=500)


class FailureTable:
    """The error handlers of an application, by exception class and by status."""

    def __init__(self) -> None:
        self._handlers: dict[type[BaseException] | int, ErrorHandler] = {}

    def add(self, key: type[Exception] | int, handler: ErrorHandler) -> None:
        """Register the handler of an exception class or a status from 400 to 599.

        Raises:
            RegistrationError: the key is neither, or it has a handler.
        """
        is_class = isinstance(key, type) and issubclass(key, Exception)
        if not is_class and not (isinstance(key, int) and 400 <= key <= 599):
            raise RegistrationError(
                "an error handler is for an Exception class or a status from 400 to 599, "
                f"not {key!r}"
            )
        if key in self._handlers:
            taken = describe(self._handlers[key])
            raise RegistrationError(f"{key!r} has an error handler already, {taken}")
        self._handlers[key] = handler

    def answer(self, request: _core.Request, error: BaseException) -> Any:
        """Give what to send for an exception: a value, or a coroutine that gives it.

        An exception that nobody expected is logged: one without a handler, or with none but that of
        `Exception` or of status 500. When the handler fails too, both are logged and the answer is
        a plain 500; when it gives what cannot be sent, the core logs that and answers so.
        """
        handler, is_expected = self._find(error)
        if not is_expected:
            _log(request, error)
        try:
            value = _default_answer(error) if handler is None else handler(request, error)
        except Exception as second:
            return _answer_second(request, second, error if is_expected else None)
        if inspect.isawaitable(value):
            return _finish(request, value, error if is_expected else None)
        return value

    def answer_status(self, request: _core.Request, status: int, allow: str) -> Any:
        """Give what to send for a status that the router decided; `allow` is for 405, else "".

        RFC 9110 §15.5.6: a 405 lists the methods in its Allow field.
        """
        headers = {"Allow": allow} if allow else {}
        return self.answer(request, HTTPError(status, headers=headers))

    def _find(self, error: BaseException) -> tuple[ErrorHandler | None, bool]:
        """Find the most specific handler, and whether it says that the error was expected.

        A status handler stands where `HTTPError` is in the order of classes; an `HTTPError` is an
        answer, so the search for one ends there and does not reach the handler of `Exception`.
        """
        handlers = self._handlers
        for cls in type(error).__mro__:
            if cls is HTTPError and isinstance(error, HTTPError):
                return handlers.get(error.status) or handlers.get(HTTPError), True
            if cls is Exception:
                break
            if cls in handlers:
                return handlers[cls], True
        if isinstance(error, ClientDisconnected):  # nobody is left to read an answer
            return None, False
        return handlers.get(Exception) or handlers.get(500), False


def _default_answer(error: BaseException) -> Response:
    if isinstance(error, HTTPError):
        return Response(text=f"{error}\n", status=error.status, headers=error.headers)
    return _PLAIN_500


async def _finish(
    request: _core.Request, answer: Awaitable[Any], first: BaseException | None
) -> Any:
    try:
        return await answer
    except Exception as second:
        return _answer_second(request, second, first)


def _answer_second(
    request: _core.Request, second: Exception, first: BaseException | None
) -> Response:
    """Answer for an error handler that raised; `first` is what it was called for, if not logged.

    An `HTTPError` is how a handler of any kind chooses a status; everything else is a failure.
    """
    if isinstance(second, HTTPError):
        try:
            return _default_answer(second)
        except (TypeError, ValueError) as third:
            second = third
    if first is not None:
        _log(request, first)
    _log(request, second)
    return _PLAIN_500


def _log(request: _core.Request, error: BaseException) -> None:
    """Log an exception with its request; what could end a line or colour a terminal is escaped."""
    method, path = request.method, repr(request.path)[1:-1]
    if isinstance(error, ClientDisconnected):
        _logger.debug("%s %s: the client disconnected", method, path)
        return
    name = type(error).__qualname__
    _logger.error("%s %s raised %s", method, path, name, exc_info=error)
