"""The micro-framework: an `App` with routes, and handlers that return plain values.

It imports only `bolide._core` and `bolide.errors`, nothing of the server or the command. The test
client is not imported here, because a serving process does not need it: `from
bolide.web.testclient import TestClient`. docs/native-api.md specifies the interface; start reading
at `app.py`.
"""

from bolide.errors import ClientDisconnected, HTTPError, WebSocketClosed
from bolide.web.app import App
from bolide.web.multidict import Headers, MultiDict
from bolide.web.request import Request
from bolide.web.response import Response
from bolide.web.websocket import WebSocket

__all__ = [
    "App",
    "ClientDisconnected",
    "HTTPError",
    "Headers",
    "MultiDict",
    "Request",
    "Response",
    "WebSocket",
    "WebSocketClosed",
]
