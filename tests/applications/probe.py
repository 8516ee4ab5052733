"""Makes an application of coroutine functions that check something and raise if it is not so.

Each is reached under two paths: `/first/NAME` runs it in its handler's first step, up to where it
suspends by itself, and `/later/NAME` after a suspension.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from bolide import App, Request

Check = Callable[[], Awaitable[None]]
FIRST, LATER = "first", "later"


class Probes:
    """An application whose responses are "ok", or 500 and a traceback."""

    def __init__(self) -> None:
        self.app = App()

    def __call__(self, check: Check) -> Check:
        """Decorate a check."""

        async def first(request: Request) -> Any:
            return await _outcome(check)

        async def later(request: Request) -> Any:
            await asyncio.sleep(0.001)
            return await _outcome(check)

        name = check.__name__
        self.app.get(f"/{FIRST}/{name}")(first)
        self.app.get(f"/{LATER}/{name}")(later)
        return check


async def _outcome(check: Check) -> Any:
    try:
        await check()
    except Exception:
        return traceback.format_exc(), 500
    return "ok"


def same(actual: Any, expected: Any) -> None:
    """Check that two values are equal.

    Raises:
        AssertionError: they are not.
    """
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")
