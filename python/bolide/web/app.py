"""`App`: the routes, error handlers, hooks and mounts of a native application.

An `App` is a register and nothing more: it hands each route to the core when it is declared, and
the core routes, calls and responds. Read `routing.py` for what a handler is called with,
`failure.py` for what happens when one fails, `request.py` and `response.py` for what it takes and
gives, `mounting.py` for where another application may be mounted.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

from bolide import _core
from bolide.errors import ClientDisconnected, RegistrationError, SignatureError
from bolide.web.failure import ErrorHandler, ErrorKey, FailureTable
from bolide.web.mounting import Mount, MountInterface, checked
from bolide.web.request import Request
from bolide.web.routing import bind, describe
from bolide.web.stream import stream_async

__all__ = ["App"]

H = TypeVar("H", bound=Callable[..., Any])
E = TypeVar("E", bound=ErrorHandler)

_logger = logging.getLogger("bolide.error")
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 §9.1: token


class App:
    """A native application.

    `state` is a namespace of the application's own, the same for every request of a worker.
    """

    state: SimpleNamespace

    def __init__(self) -> None:
        self.state = SimpleNamespace()
        self._startup: list[Callable[..., Any]] = []
        self._shutdown: list[Callable[..., Any]] = []
        self._failures = FailureTable()
        self._mounts: dict[str, Mount] = {}
        self._is_started = False
        self._native = _core.NativeApp(
            app=self,
            request_type=Request,
            on_error=self._failures.respond,
            on_status=self._failures.respond_to_status,
            stream_async=stream_async,
            disconnected=ClientDisconnected,
        )

    def core(self) -> _core.NativeApp:
        """Give the core's side of this application, for a server; always the same object."""
        return self._native

    def add_route(
        self, path: str, handler: Callable[..., Any], methods: Iterable[str] = ("GET",)
    ) -> None:
        """Have a handler serve the methods of a path pattern, from now on.

        `path` is literal but for `{name}`, `{name:int}` and, as the last segment, `{name:path}`.
        GET serves HEAD too unless HEAD has a route of its own.

        Raises:
            RegistrationError: the pattern or a method is malformed, or the route exists.
            SignatureError: the handler's parameters do not fit the pattern.
        """
        binding = bind(handler, path)
        for method in _checked_methods(methods, path):
            try:
                self._native.add_route(
                    method,
                    path,
                    binding.call,
                    binding.positional,
                    binding.keyword,
                    binding.is_async,
                )
            except ValueError as error:
                raise RegistrationError(f"{describe(handler)}: {error}") from None

    def route(self, path: str, methods: Iterable[str] = ("GET",)) -> Callable[[H], H]:
        """Decorate a handler: `add_route` with the function below.

        Raises:
            RegistrationError, SignatureError: when decorating, as `add_route` does.
        """

        def decorate(handler: H) -> H:
            self.add_route(path, handler, methods)
            return handler

        return decorate

    def get(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of GET, and of HEAD unless that has its own; see `route`."""
        return self.route(path, ("GET",))

    def head(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of HEAD; see `route`."""
        return self.route(path, ("HEAD",))

    def post(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of POST; see `route`."""
        return self.route(path, ("POST",))

    def put(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of PUT; see `route`."""
        return self.route(path, ("PUT",))

    def patch(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of PATCH; see `route`."""
        return self.route(path, ("PATCH",))

    def delete(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of DELETE; see `route`."""
        return self.route(path, ("DELETE",))

    def options(self, path: str) -> Callable[[H], H]:
        """Decorate the handler of OPTIONS; see `route`."""
        return self.route(path, ("OPTIONS",))

    def mount(self, prefix: str, application: Any, *, interface: MountInterface = "auto") -> None:
        """Have an ASGI or WSGI application serve the paths at and below a prefix.

        A path that a route of this application matches is the route's, whatever its method; of
        several prefixes the longest wins, and "/" takes what is left. What the application is, is
        found out when this one is served.

        Raises:
            RegistrationError: the prefix or the interface is none, something is mounted there, the
                application is an `App`, or this one has been started.
        """
        mount = checked(Mount(prefix, application, interface))
        if isinstance(application, App):
            mend = "add its routes to this one"
            raise RegistrationError(f"a bolide.App cannot be mounted (at {prefix}); {mend}")
        if prefix in self._mounts:
            raise RegistrationError(f"something is mounted at {prefix} already")
        if self._is_started:
            raise RegistrationError(f"{prefix} is mounted too late: mount before the server starts")
        self._mounts[prefix] = mount

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What is mounted, in order."""
        return tuple(self._mounts.values())

    def error_handler(self, *keys: ErrorKey) -> Callable[[E], E]:
        """Decorate the handler of errors: of exception classes with their subclasses, of statuses.

        A status is an int from 400 to 599, "4xx" or "5xx". The handler is called with the request
        and the exception, an `HTTPError` for a status, may be async, and returns what any handler
        may. It is for what handlers raise and for the router's 404 and 405. The most specific class
        wins; a status stands where `HTTPError` does, before "4xx" and "5xx", and those before
        `HTTPError` itself. `Exception`, 500 and "5xx" are for exceptions without another handler.

        Raises:
            RegistrationError: when decorating: another key, one that has a handler, or none.
            SignatureError: when decorating: the handler cannot take two arguments.
        """

        def decorate(handler: E) -> E:
            _check_takes(handler, 2, "an error handler takes the request and the error")
            self._failures.add(handler, *keys)
            return handler

        return decorate

    def on_startup(self, hook: H) -> H:
        """Decorate a function to run before the first request, in order of declaration.

        It may be async and may take the application. It runs once in every worker process.

        Raises:
            SignatureError: the hook needs more than one argument.
        """
        _check_hook(hook)
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: H) -> H:
        """Decorate a function to run behind the last request, in reverse order of declaration.

        It may be async and may take the application. It runs once in every worker process.

        Raises:
            SignatureError: the hook needs more than one argument.
        """
        _check_hook(hook)
        self._shutdown.append(hook)
        return hook

    async def startup(self) -> None:
        """Run the startup hooks; for the worker that serves this application.

        Raises:
            Exception: whatever a hook raises; the hooks behind it do not run.
        """
        self._is_started = True
        for hook in self._startup:
            await self._run(hook)

    async def shutdown(self) -> None:
        """Run every shutdown hook; one that raises is logged and does not keep the others."""
        self._is_started = False
        for hook in reversed(self._shutdown):
            try:
                await self._run(hook)
            except Exception:
                _logger.exception("the shutdown hook %s failed", describe(hook))

    async def _run(self, hook: Callable[..., Any]) -> None:
        result = hook(self) if _takes_app(hook) else hook()
        if inspect.isawaitable(result):
            await result


def _checked_methods(methods: Iterable[str], path: str) -> list[str]:
    """Give the methods in upper case, each once.

    Raises:
        RegistrationError: there is none, or one is no token.
    """
    if isinstance(methods, str):
        raise RegistrationError(f"methods of {path} is a list, not a str: [{methods!r}]")
    names = list(dict.fromkeys(method.upper() for method in methods))
    if not names:
        raise RegistrationError(f"the route {path} has no methods")
    for name in names:
        if not _METHOD.fullmatch(name):
            raise RegistrationError(f"the route {path} has a method {name!r}, which is no token")
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


def _check_hook(hook: Callable[..., Any]) -> None:
    rule = "a hook takes nothing, or the application"
    _check_takes(hook, 1 if _takes_app(hook) else 0, rule)


def _takes_app(hook: Callable[..., Any]) -> bool:
    """Tell whether a hook takes the application: by its one needed parameter, or one named app."""
    try:
        parameters = list(inspect.signature(hook).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
        return False
    return parameters[0].default is inspect.Parameter.empty or parameters[0].name == "app"
