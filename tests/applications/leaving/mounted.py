"""The same, with another application mounted on it."""

from __future__ import annotations

from typing import Any

from native import app

__all__ = ["app"]


async def other(scope: Any, receive: Any, send: Any) -> None:
    """Respond to nothing."""
    raise NotImplementedError


app.mount("/other", other)
