"""A WSGI application that shows environs, and lets an allocation of the next request fail."""

from __future__ import annotations

import _testcapi
from collections.abc import Callable
from typing import Any


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Respond with the environ; /refuse/N lets the N-th allocation from then on fail."""
    _testcapi.remove_mem_hooks()
    shown = {key: value for key, value in environ.items() if isinstance(value, str)}
    del shown["REMOTE_PORT"]
    start_response("200 OK", [])
    content = [repr(shown).encode()]
    _, kind, *rest = environ["PATH_INFO"].split("/")
    if kind == "refuse":
        number = int(rest[0])
        _testcapi.set_nomemory(number, number + 1)
    return content
