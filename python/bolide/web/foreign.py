"""What to write instead of names that `App` and `Request` of other frameworks have and ours lack.

Flask, Starlette and FastAPI. An `AttributeError` has the advice as its text, so `hasattr` is false.
"""

from typing import Any, NoReturn

HOOKS = "use @app.on_startup and @app.on_shutdown"
MIDDLEWARE = "there is no middleware; wrap the handlers, or use a framework that has it"
ROUTE = "use @app.get, @app.post and so on, or @app.route"

APP = {
    "add_api_route": "use app.add_route(path, handler, methods)",
    "add_exception_handler": "use @app.error_handler",
    "add_middleware": MIDDLEWARE,
    "add_url_rule": "use app.add_route(path, handler, methods)",
    "after_request": MIDDLEWARE,
    "api_route": ROUTE,
    "before_request": MIDDLEWARE,
    "errorhandler": "use @app.error_handler",
    "exception_handler": "use @app.error_handler",
    "include_router": "add the routes to this App",
    "middleware": MIDDLEWARE,
    "on_event": HOOKS,
    "register_blueprint": "add the routes to this App",
    "register_error_handler": "use @app.error_handler",
    "run": "use `bolide serve FILE.py` or `bolide.run(app)`",
    "teardown_appcontext": HOOKS,
    "test_client": "use `with bolide.TestClient(app) as client:`",
    "websocket": "Bolide does not serve WebSocket yet",
}
"""By attribute of an application."""

REQUEST = {
    "args": "use request.query",
    "data": "use request.body()",
    "files": "there is no parser of multipart content; request.body() returns the content",
    "form": "there is no parser of forms; request.text() and urllib.parse.parse_qs read one",
    "get_data": "use request.body()",
    "get_json": "use request.json()",
    "query_params": "use request.query",
}
"""By attribute of a request."""


class Missing:
    """An attribute that always raises `AttributeError`; unlike `__getattr__`, it slows no other."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(self.text)


def refuse(kind: type, names: dict[str, str]) -> None:
    """Let a class say what to write instead of each name; a subclass may define the name."""
    for name, advice in names.items():
        setattr(kind, name, Missing(f"{kind.__name__} has no {name}: {advice}"))


def missing(owner: Any, name: str, names: dict[str, str]) -> AttributeError:
    """Create the error for an attribute that does not exist."""
    kind = type(owner).__name__
    text = f"{kind!r} object has no attribute {name!r}"
    if name in names:
        text = f"{kind} has no {name}: {names[name]}"
    return AttributeError(text, name=name, obj=owner)
