"""Bolide: a Python web server and micro-framework with a Rust core.

An application needs `App`, and sometimes `Response` and `HTTPError`. `run` or the command `bolide
serve` serves it. The framework is in `bolide.web`; the server is imported when it starts. Read
ARCHITECTURE.md next.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

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


_ERRORS = "import it from bolide.errors"
_FRAMEWORK = "use App"
_HTML = 'use Response(text=..., content_type="text/html")'
_JSON = "return a dict or a list, or Response(json=...)"
_MIDDLEWARE = "there is no middleware; wrap the handlers, or use a framework that has it"
_ROUTES = "there is one App; several modules register their routes with app.add_route"
_STATIC = "there are no static files; nginx serves them, or an application that is mounted"
_TASK = "start a task with asyncio.create_task"
_TEMPLATES = "there are no templates; return what a template engine renders"
_FOREIGN = {
    "APIRouter": _ROUTES,
    "BackgroundTask": _TASK,
    "BackgroundTasks": _TASK,
    "Blueprint": _ROUTES,
    "Bolide": _FRAMEWORK,
    "CORSMiddleware": _MIDDLEWARE,
    "ClientDisconnected": _ERRORS,
    "ConfigError": _ERRORS,
    "Depends": "there is no injection of dependencies; call the function in the handler",
    "FastAPI": _FRAMEWORK,
    "FileResponse": "use Response(path.read_bytes(), content_type=...); nginx serves static files",
    "Flask": _FRAMEWORK,
    "HTMLResponse": _HTML,
    "HTTPException": "use HTTPError",
    "Headers": "import it from bolide.web",
    "HttpResponse": _HTML,
    "JSONResponse": _JSON,
    "Jinja2Templates": _TEMPLATES,
    "JsonResponse": _JSON,
    "Middleware": _MIDDLEWARE,
    "MultiDict": "import it from bolide.web",
    "PlainTextResponse": "return a str",
    "RedirectResponse": "use Response.redirect(location)",
    "Route": "use @app.get, @app.post and so on, or app.add_route",
    "Router": _ROUTES,
    "Starlette": _FRAMEWORK,
    "StaticFiles": _STATIC,
    "StreamingResponse": "return an iterator or a generator of bytes or str",
    "WebSocketDisconnect": "use WebSocketClosed",
    "abort": "raise HTTPError(status)",
    "current_app": "use the App itself; app.state stores what requests share",
    "g": "use request.state",
    "jsonify": _JSON,
    "make_response": "use Response",
    "redirect": "use Response.redirect(location)",
    "render_template": _TEMPLATES,
    "request": "a handler gets the request as its first parameter",
    "send_file": _STATIC,
    "send_from_directory": _STATIC,
    "session": "there are no sessions; response.set_cookie and request.cookies store a key of one",
    "url_for": "routes have no names; write the path",
}
"""What to write instead of names that other frameworks have, as in bolide/web/foreign.py.

They are here because the framework is imported only when it is used.
"""

if not TYPE_CHECKING:  # a type checker reports a name that does not exist

    def __getattr__(name):
        """Import on first use: the command decides what an interrupt does before it imports more.

        Raises:
            ImportError: `from bolide import NAME` of a name that other frameworks have.
            AttributeError: there is no such attribute.
        """
        if name in _MODULES:
            found = globals()[name] = getattr(import_module(_MODULES[name]), name)
            return found
        if name not in _FOREIGN:
            raise AttributeError(f"module 'bolide' has no attribute {name!r}")
        text = f"bolide has no {name}: {_FOREIGN[name]}"
        # An import asks first whether there is such an attribute, and replaces an AttributeError.
        if sys._getframe(1).f_code.co_name == "_handle_fromlist":
            raise ImportError(text, name=__name__)
        raise AttributeError(text)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
