"""A WSGI application in the middleware of OpenTelemetry, which responds with the id of its span."""

from collections.abc import Iterable
from typing import Any

from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware
from spans import current, spans


def respond(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Respond with it, or with the spans before this one."""
    content = (spans() if environ["PATH_INFO"] == "/spans" else current()).encode()
    start_response("200 OK", [("Content-Length", str(len(content)))])
    return [content]


app = OpenTelemetryMiddleware(respond)
