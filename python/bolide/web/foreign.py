"""What to write instead of names and keywords that other frameworks have and ours lack.

Flask, Starlette, FastAPI and Django. An `AttributeError` has the advice as its text, so `hasattr`
is false; a keyword is a `TypeError`, as any unknown one.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

HOOKS = "use @app.on_startup and @app.on_shutdown"
MIDDLEWARE = "there is no middleware; wrap the handlers, or use a framework that has it"
ROUTE = "use @app.get, @app.post and so on, or @app.route"
FILES = "there are no static files; nginx serves them, or an application that is mounted"
NAMES = "routes have no names; write the path"
OPENAPI = "there is no OpenAPI document; FastAPI has one"

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
    "url_for": NAMES,
    "url_path_for": NAMES,
}
"""By attribute of an application."""

FORM = (
    "there is no parser of forms; request.text() and urllib.parse.parse_qs read one"
    " (docs/native-api.md)"
)
MULTIPART = "there is no parser of multipart content; request.body() returns the content"

REQUEST = {
    "args": "use request.query",
    "COOKIES": "use request.cookies",
    "data": "use request.body()",
    "FILES": MULTIPART,
    "files": MULTIPART,
    "form": FORM,
    "GET": "use request.query",
    "get_all": "use request.query.getall(name) or request.headers.getall(name)",
    "get_data": "use request.body()",
    "get_json": "use request.json()",
    "META": "use request.headers",
    "mimetype": "use request.content_type",
    "POST": FORM,
    "query_params": "use request.query",
    "remote_addr": "use request.client",
    "session": "there are no sessions; request.cookies may have a key of one",
    "url_for": NAMES,
}
"""By attribute of a request."""

MULTIDICT = {
    "get_all": "use getall()",
    "get_list": "use getall()",
    "getlist": "use getall()",
    "to_dict": "use dict()",
}
"""By attribute of a query or a header section."""

GET_KEYWORDS = {"type": 'convert the value, for example int(request.query["page"])'}
"""By keyword of `get` of a query or a header section."""

WEBSOCKET = {
    "accepted_subprotocol": "use websocket.subprotocol",
    "body": "use websocket.receive()",
    "iter_bytes": "use `async for message in websocket`",
    "iter_json": "use `async for message in websocket`, and json.loads",
    "iter_text": "use `async for message in websocket`",
    "json": "use json.loads(await websocket.receive())",
    "query_params": "use websocket.query",
    "receive_bytes": "use websocket.receive()",
    "receive_json": "use json.loads(await websocket.receive())",
    "receive_text": "use websocket.receive()",
    "recv": "use websocket.receive()",
    "send_bytes": "use websocket.send()",
    "send_denial_response": "use websocket.reject()",
    "send_json": "use websocket.send(json.dumps(value))",
    "send_str": "use websocket.send()",
    "send_text": "use websocket.send()",
    "text": "use websocket.receive()",
}
"""By attribute of a WebSocket."""

RESPONSE = {
    "content": "use body",
    "data": "use body",
    "media_type": "pass content_type= to Response",
    "mimetype": "pass content_type= to Response",
    "set_data": "set body",
    "status_code": "use status",
}
"""By attribute of a response."""

RESULT = {
    "body": "use content",
    "data": "use content",
    "get_json": "use json()",
    "is_success": "compare its status",
    "ok": "compare its status",
    "status_code": "use status",
}
"""By attribute of what a call of the test client returns."""

APP_KEYWORDS = {
    "debug": "leave it out: tracebacks are in the log",
    "description": OPENAPI,
    "docs_url": OPENAPI,
    "exception_handlers": "use @app.error_handler",
    "import_name": "leave it out",
    "lifespan": HOOKS,
    "middleware": MIDDLEWARE,
    "on_shutdown": "use @app.on_shutdown",
    "on_startup": "use @app.on_startup",
    "openapi_url": OPENAPI,
    "redoc_url": OPENAPI,
    "root_path": "leave it out",
    "routes": ROUTE,
    "static_folder": FILES,
    "static_url_path": FILES,
    "template_folder": "there are no templates; return what a template engine renders",
    "title": OPENAPI,
    "version": OPENAPI,
}
"""By keyword of the constructor."""

RESPONSE_KEYWORDS = {
    "background": "start a task with asyncio.create_task",
    "charset": "text is sent as UTF-8; encode other charsets into body=",
    "code": "use status=",
    "content": "use body=, or json= for a value",
    "data": "use json=",
    "direct_passthrough": "leave it out",
    "encoder": "leave it out: msgspec encodes json=",
    "html": 'use text=, and content_type="text/html"',
    "json_dumps_params": "leave it out: msgspec encodes json=",
    "media_type": "use content_type=",
    "mimetype": "use content_type=",
    "reason": "leave it out: the status determines the reason phrase",
    "response": "use body=",
    "safe": "leave it out: json= takes any value",
    "status_code": "use status=",
    "streaming_content": "use body=",
}
"""By keyword of the constructor."""

COOKIE_KEYWORDS = {
    "httponly": "use http_only=",
    "key": "use name=",
    "partitioned": "use add_header()",
    "salt": "there are no signed cookies",
    "samesite": "use same_site=",
}
"""By keyword of `Response.set_cookie` and `delete_cookie`."""

CALL_KEYWORDS = {
    "data": "use content=; urllib.parse.urlencode renders a form",
    "files": "use content=",
    "follow_redirects": "redirects are not followed",
    "query_string": "use params=",
}
"""By keyword of a call of the test client."""


class Missing:
    """An attribute that raises `AttributeError`; unlike `__getattr__`, it slows no other.

    An instance that has a `__dict__`, as those of a subclass do, may set it.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def __get__(self, instance: object, owner: type) -> Any:
        if self.name in (own := getattr(instance, "__dict__", {})):
            return own[self.name]
        raise AttributeError(self.text, obj=instance)

    def __set__(self, instance: object, value: object) -> None:
        if not hasattr(instance, "__dict__"):
            raise AttributeError(self.text)
        vars(instance)[self.name] = value


def refuse(kind: type, names: dict[str, str]) -> None:
    """Let a class say what to write instead of each name; a subclass may define the name."""
    for name, advice in names.items():
        setattr(kind, name, Missing(name, f"{kind.__name__} has no {name}: {advice}"))


def missing(owner: Any, name: str, names: dict[str, str]) -> AttributeError:
    """Create the error for an attribute that does not exist."""
    kind = type(owner).__name__
    if name in names:  # without the name, so that Python does not suggest a similar one
        return AttributeError(f"{kind} has no {name}: {names[name]}", obj=owner)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


def refuse_keywords(owner: str, names: Mapping[str, str], given: Iterable[str]) -> None:
    """Say what to write instead of a keyword.

    Raises:
        TypeError: there is an advice for one of those that are given.
    """
    for name in given:
        if name in names:
            raise TypeError(f"{owner} takes no {name}=: {names[name]}")


def advising(
    owner: str, names: Mapping[str, str], alone: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method say what to write instead of keywords, and `alone` if it takes no argument."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def advised(*arguments: P.args, **named: P.kwargs) -> R:
            refuse_keywords(owner, names, named)
            if alone and len(arguments) > 1:
                raise TypeError(f"{owner} takes no arguments: {alone}")
            return function(*arguments, **named)

        return advised

    return decorate
