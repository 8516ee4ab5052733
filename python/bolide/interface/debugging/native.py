"""The response of a native application to what a handler raises."""

from __future__ import annotations

from typing import Any

from bolide.interface.debugging import page
from bolide.interface.debugging.disclosure import Shown
from bolide.web import Response


def respond(request: Any, error: BaseException) -> Response | None:
    """Return the response; None for a client that must not see the exception."""
    found = page.of_exception(error, shown(request))
    if found is None:
        return None
    return Response(
        found.content, status=500, headers=found.fields[1:], content_type=found.media_type
    )


def shown(request: Any) -> Shown:
    """Return the request of a handler."""
    query = request.query_string.decode("latin-1")
    target = f"{request.path}?{query}" if query else request.path
    client = request.client
    address, fields = client[0] if client else "", list(request.field_lines())
    return Shown(request.method, target, address, fields, request.http_version)
