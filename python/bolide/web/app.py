"""`App`: the routes, error handlers, hooks and mounts of a native application.

An `App` is only a registry: it passes each route to the core when it is declared, and the core
routes requests, calls handlers and sends responses. Read `routing.py` for the arguments of a
handler, `failure.py` for what happens when one fails, `request.py` and `response.py` for what it
receives and returns, and `mounting.py` for where another application may be mounted.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from bolide import _core
from bolide.errors import ClientDisconnected, RegistrationError, SignatureError
from bolide.web import foreign
from bolide.web.bounds import Bounds, checked_bounds
from bolide.web.failure import ErrorKey, FailureTable
from bolide.web.handler import ErrorHandler, Handler, WebSocketHandler
from bolide.web.mounting import Mount, MountInterface, checked
from bolide.web.request import Request
from bolide.web.routing import Binding, bind, describe, described_at, is_async_generator, shape
from bolide.web.stream import stream_async
from bolide.web.websocket import WebSocket

__all__ = ["App"]

H = TypeVar("H", bound=Handler)
W = TypeVar("W", bound=WebSocketHandler)
E = TypeVar("E", bound=ErrorHandler)
F = TypeVar("F", bound=Callable[..., Any])

_logger = logging.getLogger("bolide.error")
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 §9.1: token
Around = Callable[[Binding, str], Callable[..., Any]]
_NO_HOOK: Any = None
"""The hook of a decorator with parentheses."""


class App:
    """A native application.

    `state` is a namespace for the application's use, shared by all requests of a worker. `around`,
    if it is set, makes what is called instead of the handlers that are registered from then on:
    `bolide.otel` uses it.
    """

    state: SimpleNamespace

    @foreign.advising("App", foreign.APP_KEYWORDS, "write App()")
    def __init__(self) -> None:
        self.state = SimpleNamespace()
        self._startup: list[Callable[..., Any]] = []
        self._shutdown: list[Callable[..., Any]] = []
        self._failures = FailureTable()
        self._mounts: dict[str, Mount] = {}
        self._routes: dict[tuple[str, str], tuple[str, Callable[..., Any]]] = {}
        self._is_started = False
        self.around: Around | None = None
        self._native = _core.NativeApp(
            app=self,
            request_type=Request,
            websocket_type=WebSocket,
            on_error=self._failures.respond,
            on_status=self._failures.respond_to_status,
            stream_async=stream_async,
            disconnected=ClientDisconnected,
        )

    if not TYPE_CHECKING:  # a type checker reports an attribute that does not exist

        def __getattr__(self, name):
            raise foreign.missing(self, name, foreign.APP)

    def show_failures(
        self, debugger: Callable[[_core.Request, BaseException], _core.Response | None]
    ) -> None:
        """Let `debugger` respond to unexpected exceptions; where it returns None, as usual."""
        self._failures.debugger = debugger

    def expects(self, error: BaseException) -> bool:
        """Return whether an error handler is for this exception, so that it is no failure."""
        return self._failures.expects(error)

    def core(self) -> _core.NativeApp:
        """Return the core's part of this application, for a server; always the same object."""
        return self._native

    def add_route(
        self,
        path: str,
        handler: Handler,
        methods: Iterable[str] = ("GET",),
        *,
        body_bytes_max: int | None = None,
        handler_timeout_ms: int | None = None,
    ) -> None:
        """Register a handler for the methods of a path pattern.

        `path` is literal except for `{name}`, `{name:int}` and, as the last segment, `{name:path}`.
        A GET route also serves HEAD unless HEAD has its own route. The content of its requests may
        have `body_bytes_max` bytes, and the handler `handler_timeout_ms` milliseconds to begin its
        response (0: no limit), instead of what the server's settings say.

        Raises:
            RegistrationError: the pattern, a method or a bound is malformed, or the route exists.
            SignatureError: the handler's parameters do not fit the pattern.
        """
        binding = bind(handler, path)
        bounds = checked_bounds(handler, body_bytes_max, handler_timeout_ms)
        call = binding.call if self.around is None else self.around(binding, path)
        names = _checked_methods(methods, path)
        for method in names:  # before the first is registered: all are, or none
            self._check_free(handler, method, path)
        for method in names:
            try:
                self._native.add_route(
                    method,
                    path,
                    call,
                    binding.positional,
                    binding.keyword,
                    binding.is_async,
                    *bounds,
                )
            except ValueError as error:
                raise RegistrationError(f"{describe(handler)}: {error}") from None
            self._routes[method, shape(path)] = (path, handler)

    @property
    def has_routes(self) -> bool:
        """Whether a handler has been registered."""
        return bool(self._routes)

    def _check_free(self, handler: Callable[..., Any], method: str, path: str) -> None:
        """Name both handlers if the route exists, since the other one may be in another file.

        Raises:
            RegistrationError: it does.
        """
        if (method, shape(path)) not in self._routes:
            return
        taken, first = self._routes[method, shape(path)]
        by = described_at(first) if taken == path else f"{taken} of {described_at(first)}"
        raise RegistrationError(
            f"{described_at(handler)}: {method} {path} is taken already, by {by}; "
            "give one of them another path or method"
        )

    def route(
        self, path: str, methods: Iterable[str] = ("GET",), **bounds: Unpack[Bounds]
    ) -> Callable[[H], H]:
        """Decorate a handler, as `add_route` registers it.

        Raises:
            RegistrationError, SignatureError: when decorating, as `add_route`; the first also if
                there is no path.
        """
        return self._route("route", path, methods, bounds)

    def _route(
        self, name: str, path: str, methods: Iterable[str], bounds: Bounds
    ) -> Callable[[H], H]:
        def add(path: str, handler: Handler) -> None:
            self.add_route(path, handler, methods, **bounds)

        return self._decorator(name, path, add)

    def _decorator(
        self, name: str, path: str, add: Callable[[str, Callable[..., Any]], None]
    ) -> Callable[[F], F]:
        if callable(path):  # a decorator without parentheses; without this, it would do nothing
            example = f'@app.{name}("/path")'
            raise RegistrationError(f"{describe(path)}: {name}() needs a path: write {example}")

        def decorate(handler: F) -> F:
            add(path, handler)
            return handler

        return decorate

    def get(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of GET, and of HEAD unless it has its own; see `route`."""
        return self._route("get", path, ("GET",), bounds)

    def head(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of HEAD; see `route`."""
        return self._route("head", path, ("HEAD",), bounds)

    def post(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of POST; see `route`."""
        return self._route("post", path, ("POST",), bounds)

    def put(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of PUT; see `route`."""
        return self._route("put", path, ("PUT",), bounds)

    def patch(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of PATCH; see `route`."""
        return self._route("patch", path, ("PATCH",), bounds)

    def delete(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of DELETE; see `route`."""
        return self._route("delete", path, ("DELETE",), bounds)

    def options(self, path: str, **bounds: Unpack[Bounds]) -> Callable[[H], H]:
        """Decorate the handler of OPTIONS; see `route`."""
        return self._route("options", path, ("OPTIONS",), bounds)

    def websocket(self, path: str) -> Callable[[W], W]:
        """Decorate the handler of WebSockets that are opened at a path pattern, as in `route`.

        The handler is an async function that takes the `WebSocket` and the pattern's parameters.

        Raises:
            RegistrationError, SignatureError: when decorating, as `add_websocket_route`.
        """
        return self._decorator("websocket", path, self.add_websocket_route)

    def add_websocket_route(self, path: str, handler: WebSocketHandler) -> None:
        """Register the handler of WebSockets that are opened at a path pattern.

        Raises:
            RegistrationError: the pattern is malformed, or the route exists.
            SignatureError: the handler is not async, or its parameters do not fit the pattern.
        """
        binding = bind(handler, path)
        if not binding.is_async or is_async_generator(handler):
            rule = "the handler of a WebSocket is an async function without yield"
            raise SignatureError(f"{described_at(handler)} of {path}: {rule}")
        self._check_free(handler, "WebSocket", path)
        try:
            self._native.add_websocket_route(
                path, binding.call, binding.positional, binding.keyword
            )
        except ValueError as error:
            raise RegistrationError(f"{describe(handler)}: {error}") from None
        self._routes["WebSocket", shape(path)] = (path, handler)

    def publish(self, topic: str, message: str | bytes) -> None:
        """Send a message to all WebSockets of this process that subscribe to a topic.

        May be called from any thread. Without a server it does nothing.

        Raises:
            TypeError: the topic is not a str, or the message is neither a str nor bytes.
            ValueError: the name of the topic has more than 256 bytes of UTF-8.
            MemoryError: there is no memory for the message.
        """
        self._native.publish(topic, message)

    def mount(self, prefix: str, application: Any, *, interface: MountInterface = "auto") -> None:
        """Mount an ASGI or WSGI application at a prefix; it serves all paths at and below it.

        Routes of this application take precedence, whatever the method. If several prefixes match,
        the longest wins; "/" matches everything else. With "auto", the interface is detected when
        this application is served.

        Raises:
            RegistrationError: the prefix or the interface is not valid, something is mounted there
                already, the application is an `App`, or this one has been started.
        """
        mount = checked(Mount(prefix, application, interface))
        if isinstance(application, App):
            remedy = "add its routes to this one"
            raise RegistrationError(f"a bolide.App cannot be mounted (at {prefix}); {remedy}")
        if prefix in self._mounts:
            raise RegistrationError(f"something is mounted at {prefix} already")
        if self._is_started:
            raise RegistrationError(f"{prefix} is mounted too late: mount before the server starts")
        self._mounts[prefix] = mount

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The mounted applications, in order."""
        return tuple(self._mounts.values())

    def error_handler(self, *keys: ErrorKey) -> Callable[[E], E]:
        """Decorate an error handler for exception classes (and their subclasses) or statuses.

        A status is an int from 400 to 599, "4xx" or "5xx". The handler is called with the request
        and the exception (an `HTTPError` for a status). It may be async, and returns what any
        handler may. It handles what handlers raise, and the router's 404 and 405. The most specific
        class wins. Statuses rank as `HTTPError` does: first the status, then "4xx" or "5xx", then
        `HTTPError` itself. `Exception`, 500 and "5xx" handle exceptions that no other handler does.

        Raises:
            RegistrationError: when decorating: a key is not valid or has a handler, or there is
                none.
            SignatureError: when decorating: the handler cannot take two arguments.
        """
        given: tuple[Any, ...] = keys
        for key in given:
            if callable(key) and not isinstance(key, type):
                rule = "error_handler() needs an exception class or a status"
                example = "@app.error_handler(404)"
                raise RegistrationError(f"{describe(key)}: {rule}: write {example}")

        def decorate(handler: E) -> E:
            _check_takes(handler, 2, "an error handler takes the request and the error")
            self._failures.add(handler, *keys)
            return handler

        return decorate

    def on_startup(self, hook: F = _NO_HOOK) -> F:
        """Decorate a function to run before the first request, in order of declaration.

        It may be async and may take the application. It runs once in every worker process.

        Raises:
            RegistrationError: there is no hook.
            SignatureError: the hook needs more than one argument.
        """
        _check_hook(hook, "on_startup")
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: F = _NO_HOOK) -> F:
        """Decorate a function to run after the last request, in reverse order of declaration.

        It may be async and may take the application. It runs once in every worker process.

        Raises:
            RegistrationError: there is no hook.
            SignatureError: the hook needs more than one argument.
        """
        _check_hook(hook, "on_shutdown")
        self._shutdown.append(hook)
        return hook

    async def startup(self) -> None:
        """Run the startup hooks; for the worker that serves this application.

        Raises:
            Exception: whatever a hook raises; the hooks after it do not run.
        """
        self._is_started = True
        for hook in self._startup:
            await self._run(hook)

    async def shutdown(self) -> None:
        """Run every shutdown hook; an exception is logged, and the other hooks still run."""
        self._is_started = False
        for hook in reversed(self._shutdown):
            try:
                await self._run(hook)
            except BaseException as error:
                if _is_cancellation(error):
                    raise
                _logger.exception("the shutdown hook %s failed", describe(hook))

    async def _run(self, hook: Callable[..., Any]) -> None:
        result = hook(self) if _takes_app(hook) else hook()
        if inspect.isawaitable(result):
            await result


def _checked_methods(methods: Iterable[str], path: str) -> list[str]:
    """Return the methods in upper case, without duplicates.

    Raises:
        RegistrationError: there is none, or one is not a token.
    """
    if isinstance(methods, str):
        raise RegistrationError(f"methods of {path} is a list, not a str: [{methods!r}]")
    names = list(dict.fromkeys(method.upper() for method in methods))
    if not names:
        raise RegistrationError(f"the route {path} has no methods")
    for name in names:
        if not _METHOD.fullmatch(name):
            raise RegistrationError(f"the route {path} has a method {name!r}, which is not a token")
    return names


def _check_takes(function: Callable[..., Any], count: int, rule: str) -> None:
    """Check that a function can be called with `count` positional arguments.

    Raises:
        SignatureError: it cannot.
    """
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError) as error:
        raise SignatureError(f"{describe(function)}: {rule} ({error})") from None


def _is_cancellation(error: BaseException) -> bool:
    """Return whether the task that runs a hook is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    is_being_cancelled = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled


def _check_hook(hook: Callable[..., Any], name: str) -> None:
    if hook is _NO_HOOK:
        raise RegistrationError(f"{name}() has no function: write @app.{name} without parentheses")
    rule = "a hook takes nothing, or the application"
    _check_takes(hook, 1 if _takes_app(hook) else 0, rule)


def _takes_app(hook: Callable[..., Any]) -> bool:
    """Return whether a hook takes the application: a required parameter, or one named app."""
    try:
        parameters = list(inspect.signature(hook).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
        return False
    return parameters[0].default is inspect.Parameter.empty or parameters[0].name == "app"
