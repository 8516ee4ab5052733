"""The plain WSGI application in the standard library's validator."""

from collections.abc import Iterable
from typing import Any
from wsgiref.validate import validator

from wsgi_plain import app as plain

validated = validator(plain)


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Have every call judged."""
    return validated(environ, start_response)
