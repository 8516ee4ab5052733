"""An ASGI application around another one, whose exceptions it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from bolide.errors import ClientDisconnected
from bolide.interface.debugging import page
from bolide.interface.debugging.disclosure import Shown

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
HELD_BYTES_MAX: Final = 65_536
"""Content of a response with status 500 that waits for what the application raises."""


class AsgiDebugger:
    """Calls an application, and responds with the traceback of what it raises.

    Frameworks send a 500 of their own and raise then. So a 500 is held until the application ends.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, WebSocket or lifespan."""
        if scope["type"] != "http" or not (request := shown(scope)).is_local:
            await self._app(scope, receive, send)
            return
        held = _Held(send)
        try:
            await self._app(scope, receive, held.send)
        except Exception as error:
            if not held.is_released and not isinstance(error, ClientDisconnected):
                await respond(page.of_exception(error, request), send)
            raise  # so that it is logged
        await held.release()


class _Held:
    """Sends what an application sends, except a 500 that has not become long."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []
        self._size = 0
        self.is_released = False
        """Whether something was sent."""

    async def send(self, message: Message) -> None:
        if not self.is_released:
            is_failure = message.get("status") == 500 or self._messages
            self._size += len(message.get("body") or b"")
            if is_failure and self._size <= HELD_BYTES_MAX:
                self._messages.append(message)
                return
            await self.release()
        await self._send(message)

    async def release(self) -> None:
        """Send what was held."""
        self.is_released = True
        messages, self._messages = self._messages, []
        for each in messages:
            await self._send(each)


def shown(scope: Message) -> Shown:
    """Return the request of a scope."""
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = (path + b"?" + query if query else path).decode("latin-1")
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    client = scope.get("client") or ("",)
    return Shown(scope["method"], target, str(client[0]), fields, scope["http_version"])


async def respond(found: page.Page | None, send: Send) -> None:
    """Send a page with the status 500, if there is one."""
    if found is not None:
        fields = [(name.lower().encode(), value.encode()) for name, value in found.fields]
        await send({"type": "http.response.start", "status": 500, "headers": fields})
        await send({"type": "http.response.body", "body": found.content})
