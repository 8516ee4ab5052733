"""Bounds of a route that differ from those of the server."""

from collections.abc import Callable
from typing import Any, TypedDict

from bolide.errors import RegistrationError
from bolide.web.routing import describe

NUMBER_MAX = 2**40
"""As for the server's options: a tebibyte, or 35 years in milliseconds."""


class Bounds(TypedDict, total=False):
    """What bounds the requests of a route; what is left out, or None, is the server's."""

    body_bytes_max: int | None
    handler_timeout_ms: int | None


def checked_bounds(
    handler: Callable[..., Any], body_bytes_max: int | None, handler_timeout_ms: int | None
) -> tuple[int | None, int | None]:
    """Return the bounds of a handler's route.

    Raises:
        RegistrationError: one is not a whole number in its range.
    """
    given = {"body_bytes_max": (body_bytes_max, 1), "handler_timeout_ms": (handler_timeout_ms, 0)}
    for name, (value, least) in given.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_number and least <= value <= NUMBER_MAX):
            rule = f"{name}={value!r} is not a whole number from {least} to {NUMBER_MAX}"
            raise RegistrationError(f"{describe(handler)}: {rule}")
    return body_bytes_max, handler_timeout_ms
