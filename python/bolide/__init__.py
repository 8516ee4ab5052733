"""Bolide: a Python web server and micro-framework with a Rust core.

An application needs `App` and, now and then, `Response` and `HTTPError`; `run` or the command
`bolide serve` serves it. The framework is in `bolide.web`; the server's shell is imported when it
starts. Where to read next: ARCHITECTURE.md.
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
    """Import what is big, or needs asyncio, for those who ask for it: most applications do not."""
    if name == "Server":
        from bolide.server.embedded import Server

        return Server
    if name == "TestClient":
        from bolide.web.testclient import TestClient

        return TestClient
    raise AttributeError(f"module 'bolide' has no attribute {name!r}")
