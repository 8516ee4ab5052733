"""What is served while an application cannot be served: its failure, until a file changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bolide.errors import ConfigError, StartupError
from bolide.interface.asgi import AsgiApplication
from bolide.server import logs
from bolide.server.logs import logger

Message = MutableMapping[str, Any]
TEXT = b"The application cannot be served: %s.\nIt is tried again when a file changes.\n"


class UnfitError(Exception):
    """The application of this worker cannot be served, and the next change may repair it."""

    def __init__(self, reason: ConfigError | StartupError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def application(error: UnfitError, *, is_shown: bool) -> AsgiApplication:
    """Log the failure, and return an application that responds with 500 to everything.

    If it `is_shown`, clients on this machine get the traceback.
    """
    from bolide.interface.debugging import asgi, page  # over 1 MiB, and rarely needed

    reason = error.reason
    details = getattr(reason, "details", "") or ""
    logs.write_details(details)
    logger.error("%s; it is tried again when a file changes", reason)

    async def respond(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            found = page.of_text(str(reason), details, asgi.shown(scope)) if is_shown else None
            if found is not None:
                await asgi.respond(found, send)
                return
            content = TEXT % b"the log says why"
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            headers.append((b"cache-control", b"no-store"))
            await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": content})
        else:
            raise ValueError(scope["type"])  # it has no lifespan

    return AsgiApplication(respond)
