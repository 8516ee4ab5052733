"""Bolide: a Python web server and micro-framework with a Rust core.

An application needs `App`, and sometimes `Response` and `HTTPError`. `run` or the command `bolide
serve` serves it. The framework is in `bolide.web`; the server is imported when it starts. Read
ARCHITECTURE.md next.
"""

from typing import TYPE_CHECKING, Any

from bolide._core import __version__
from bolide.start import run, serve
from bolide.web import App, HTTPError, Request, Response

if TYPE_CHECKING:
    from bolide.server.embedded import Server
    from bolide.web.testclient import TestClient

__all__ = [
    "App",
    "HTTPError",
    "Request",
    "Response",
    "Server",
    "TestClient",
    "__version__",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:
    """Import on first use what is large or needs asyncio: most applications do not use it."""
    if name == "Server":
        from bolide.server.embedded import Server

        return Server
    if name == "TestClient":
        from bolide.web.testclient import TestClient

        return TestClient
    raise AttributeError(f"module 'bolide' has no attribute {name!r}")
