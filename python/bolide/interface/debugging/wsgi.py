"""A WSGI application around another one, whose exceptions it shows."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from bolide.errors import ClientDisconnected
from bolide.interface.debugging import page
from bolide.interface.debugging.disclosure import Shown

Environ = dict[str, Any]
Callback = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
logger = logging.getLogger("bolide.error")


class WsgiDebugger:
    """Calls an application, and responds with the traceback of what it raises."""

    def __init__(self, app: Callback) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request."""
        if not (request := shown(environ)).is_local:
            return self._app(environ, start_response)
        try:
            returned = self._app(environ, start_response)
        except ClientDisconnected:
            raise
        except Exception as error:
            return _failed(error, request, start_response)
        if isinstance(returned, Generator):  # its code has not run yet
            return _Parts(returned, request, start_response)
        return returned


class _Parts:
    """What a generator yields, or the traceback of what it raises before the first part."""

    def __init__(
        self, parts: Generator[bytes, Any, Any], request: Shown, start_response: Callable[..., Any]
    ) -> None:
        self._parts, self._request, self._start_response = parts, request, start_response
        self._rest: Iterator[bytes] = parts
        self._has_begun = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            part = next(self._rest)
        except (StopIteration, ClientDisconnected):
            raise
        except Exception as error:
            if self._has_begun:
                raise
            self._rest = iter(_failed(error, self._request, self._start_response))
            part = next(self._rest)
        self._has_begun |= bool(part)
        return part

    def close(self) -> None:
        """Close the generator."""
        self._parts.close()


def _failed(
    error: Exception, request: Shown, start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """Log what was raised, and respond with it; raise it again if that is not possible any more."""
    found = page.of_exception(error, request)
    if found is None:
        raise error
    start_response("500 Internal Server Error", found.fields, sys.exc_info())
    title = page.visible(f"{request.method} {request.target.partition('?')[0]}")
    logger.error("%s: the application raised", title, exc_info=error)
    return [found.content]


def shown(environ: Environ) -> Shown:
    """Return the request of an environ."""
    target = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    if query := environ.get("QUERY_STRING", ""):
        target += f"?{query}"
    fields = [
        (name.removeprefix("HTTP_").replace("_", "-").title(), str(value))
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    ]
    client, version = environ.get("REMOTE_ADDR", ""), environ["SERVER_PROTOCOL"]
    return Shown(environ["REQUEST_METHOD"], target, client, fields, version.removeprefix("HTTP/"))
