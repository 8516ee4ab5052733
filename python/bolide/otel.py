"""Spans of OpenTelemetry for the handlers of a native application: `pip install 'bolide[otel]'`.

    app = traced(App())

Only what `traced` is called for is slower. ASGI and WSGI applications have OpenTelemetry's own
middlewares, which work as they are. Without an SDK, or without a provider that the application
sets up, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from bolide import _core
from bolide.errors import RegistrationError
from bolide.web import App, HTTPError, Request
from bolide.web.failure import is_disconnection

if TYPE_CHECKING:
    from bolide.web.routing import Binding

__all__ = ["traced"]

KNOWN = frozenset(("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"))
"""Methods that may be in the name of a span: a client can invent others without end."""


class _Fields(Getter[Request]):
    """Reads the context of a client's span from the fields of its request."""

    def get(self, carrier: Request, key: str) -> list[str] | None:
        return carrier.headers.getall(key) or None

    def keys(self, carrier: Request) -> list[str]:
        return list(carrier.headers)


_FIELDS = _Fields()


def traced(app: App, *, tracer_provider: trace.TracerProvider | None = None) -> App:
    """Let every handler of `app` run in a span of its request; return `app`.

    The span's parent is what the field traceparent says. It has the attributes of OpenTelemetry's
    conventions for HTTP servers, and ends when the handler returns: a streamed response follows.
    Requests without a route, WebSockets and mounted applications have none.

    Raises:
        RegistrationError: the application has routes already.
    """
    if app.has_routes:
        raise RegistrationError("traced() is called before the first route: app = traced(App())")
    tracer = trace.get_tracer("bolide", _core.__version__, tracer_provider)
    app.around = lambda binding, path: _in_span(app, tracer, binding, path)
    return app


def _in_span(app: App, tracer: trace.Tracer, binding: Binding, path: str) -> Callable[..., Any]:
    handler = binding.call
    if binding.is_async:

        @wraps(handler)
        async def call_async(request: Request, *positional: Any, **keyword: Any) -> Any:
            with _span(app, tracer, request, path) as span:
                return _responded(span, await handler(request, *positional, **keyword))

        return call_async

    @wraps(handler)
    def call(request: Request, *positional: Any, **keyword: Any) -> Any:
        with _span(app, tracer, request, path) as span:
            return _responded(span, handler(request, *positional, **keyword))

    return call


@contextmanager
def _span(app: App, tracer: trace.Tracer, request: Request, path: str) -> Iterator[Span]:
    method = request.method if request.method in KNOWN else "HTTP"
    with tracer.start_as_current_span(
        f"{method} {path}",
        context=propagate.extract(request, getter=_FIELDS),
        kind=SpanKind.SERVER,
        attributes=_attributes(request, path),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            _failed(app, span, error)
            raise


def _attributes(request: Request, path: str) -> dict[str, str | int]:
    known = request.method in KNOWN
    attributes: dict[str, str | int] = {
        "http.request.method": request.method if known else "_OTHER",
        "http.route": path,
        "url.scheme": request.scheme,
        "url.path": request.root_path + request.raw_path.decode("latin-1"),
        "network.protocol.version": request.http_version,
    }
    if not known:
        attributes["http.request.method_original"] = request.method
    if request.query_string:
        attributes["url.query"] = request.query_string.decode("latin-1")
    if agent := request.headers.get("user-agent"):
        attributes["user_agent.original"] = agent
    if client := request.client:
        attributes["client.address"] = client[0]
    host, _, port = request.host.rpartition(":")
    if host and port.isdecimal():
        attributes |= {"server.address": host.strip("[]"), "server.port": int(port)}
    elif request.host:
        attributes["server.address"] = request.host.strip("[]")
    return attributes


def _responded(span: Span, value: Any) -> Any:
    match value:
        case _core.Response():
            status = value.status
        case (_, int(status)):
            pass
        case None:
            status = 204
        case _:
            status = 200
    _set_status(span, status)
    return value


def _failed(app: App, span: Span, error: BaseException) -> None:
    if isinstance(error, HTTPError):
        return _set_status(span, error.status)
    if is_disconnection(error):
        return span.set_attribute("error.type", type(error).__qualname__)
    if app.expects(error):  # its handler responds after the span, with a status of its own
        return None
    span.record_exception(error)
    _set_status(span, 500, type(error).__qualname__)


def _set_status(span: Span, status: int, kind: str | None = None) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_attribute("error.type", kind or str(status))
        span.set_status(Status(StatusCode.ERROR))
