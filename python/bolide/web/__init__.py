"""The micro-framework: an `App` with routes, and handlers that return plain values.

It stands on `bolide._core` and `bolide.errors` alone and imports nothing of the server's shell. The
test client is not imported here, since a serving process has no use for it: `from
bolide.web.testclient import TestClient`. The interface is specified in docs/native-api.md; start
reading at `app.py`.
"""

from bolide.errors import ClientDisconnected, HTTPError
from bolide.web.app import App
from bolide.web.multidict import Headers, MultiDict
from bolide.web.request import Request
from bolide.web.response import Response

__all__ = ["App", "ClientDisconnected", "HTTPError", "Headers", "MultiDict", "Request", "Response"]
