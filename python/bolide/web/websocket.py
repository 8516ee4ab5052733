"""`WebSocket`: the first argument of a handler that `App.websocket` registers.

The core calls the handler when a valid handshake has arrived, and the handler accepts or refuses
it. What follows is messages: the core parses frames, responds to pings and enforces the limits.
The methods that are called for each message are the core's; this class adds what is easier in
Python.
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

from bolide import _core
from bolide.web import foreign
from bolide.web.request import RequestHead
from bolide.web.response import Response

__all__ = ["WebSocket"]

_FieldLines = Mapping[str, str] | Iterable[tuple[str, str]]


class WebSocket(RequestHead, _core.WebSocket):
    """One WebSocket, with the attributes of the request that opened it.

    `async for message in websocket` receives until it is closed. The first of `accept()`,
    `receive()`, `send()`, `close()`, `subscribe()` and iteration accepts the handshake.
    """

    __slots__ = ()

    def accept(
        self, subprotocol: str | None = None, headers: _FieldLines | None = None
    ) -> Awaitable[None]:
        """Accept the handshake, with one of `subprotocols` and additional response headers.

        Raises:
            ValueError: the client does not offer the subprotocol, or a header is malformed or set
                by the server itself.
            RuntimeError: the handshake was accepted or refused before.
            ClientDisconnected: the client has left, whether it was accepted before or not.
        """
        lines = Response(headers=headers).raw_headers if headers else b""
        return self._accept(subprotocol, lines)

    def reject(self, status: int = 403, body: Any = None, **arguments: Any) -> Awaitable[None]:
        """Refuse the handshake with a response, whose arguments are those of `Response`.

        Raises:
            TypeError, ValueError: as `Response`; also for a body that is an iterator.
            RuntimeError: the handshake was accepted or refused before.
            ClientDisconnected: the client has left, whether it was accepted before or not.
        """
        return self._reject(Response(body, status, **arguments))


foreign.refuse(WebSocket, foreign.WEBSOCKET)
