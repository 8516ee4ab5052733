"""The types of handlers, for type checkers: what they may return, and which must be async.

The types allow a little more than the server does, so that no valid program is refused: for example
`Iterable` instead of `Iterator`, because generators are often annotated so. What a handler takes is
checked when it is registered: see `routing.py`.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from bolide import _core

__all__ = ["ErrorHandler", "Handler", "Returned", "WebSocketHandler"]

Returned: TypeAlias = (
    _core.Response
    | Sequence[Any]  # str, bytes, a list, or (value, status)
    | Mapping[Any, Any]
    | Iterable[str | bytes]
    | AsyncIterable[str | bytes]
    | None
)
"""What a handler may return."""

Handler: TypeAlias = Callable[..., Returned | Awaitable[Returned]]
ErrorHandler: TypeAlias = Callable[[Any, Any], Returned | Awaitable[Returned]]
WebSocketHandler: TypeAlias = Callable[..., Awaitable[Any]]
