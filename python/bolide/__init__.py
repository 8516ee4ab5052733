"""Bolide: a Python web server and micro-framework with a Rust core.

An application needs `App`, and sometimes `Response` and `HTTPError`. `run` or the command `bolide
serve` serves it. The framework is in `bolide.web`; the server is imported when it starts. Read
ARCHITECTURE.md next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bolide._core import __version__
    from bolide.server.embedded import Server
    from bolide.start import run, serve
    from bolide.web import App, HTTPError, Request, Response, WebSocket, WebSocketClosed
    from bolide.web.testclient import TestClient

__all__ = [
    "App",
    "HTTPError",
    "Request",
    "Response",
    "Server",
    "TestClient",
    "WebSocket",
    "WebSocketClosed",
    "__version__",
    "run",
    "serve",
]

_MODULES = {
    "App": "bolide.web",
    "HTTPError": "bolide.web",
    "Request": "bolide.web",
    "Response": "bolide.web",
    "Server": "bolide.server.embedded",
    "TestClient": "bolide.web.testclient",
    "WebSocket": "bolide.web",
    "WebSocketClosed": "bolide.web",
    "__version__": "bolide._core",
    "run": "bolide.start",
    "serve": "bolide.start",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the command decides what an interrupt does before it imports more."""
    if name not in _MODULES:
        raise AttributeError(f"module 'bolide' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
