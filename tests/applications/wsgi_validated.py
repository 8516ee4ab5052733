"""The plain WSGI application behind the standard library's judge of both sides."""

from collections.abc import Iterable
from typing import Any
from wsgiref.validate import validator

from wsgi_plain import app as plain

validated = validator(plain)


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Have every call judged."""
    return validated(environ, start_response)
