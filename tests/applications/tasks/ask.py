"""Coroutine functions that give a text, as a native application (`app`) and over ASGI (`asgi`).

A module decorates them with an `Asked`; each is served under its name.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from bolide import App, Request

Ask = Callable[[], Awaitable[str]]


class Asked:
    """Two applications of the same functions."""

    def __init__(self) -> None:
        self.app = App()
        self._asks: dict[str, Ask] = {}
        self._startups: list[Callable[[], None]] = []

    def __call__(self, ask: Ask) -> Ask:
        """Decorate a function."""
        name = ask.__name__

        async def handler(request: Request) -> Any:
            return await _outcome(ask)

        self.app.get(f"/{name}")(handler)
        self._asks[f"/{name}"] = ask
        return ask

    def on_startup(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorate a function that both applications run when they start, in the loop."""

        async def startup() -> None:
            function()

        self.app.on_startup(startup)
        self._startups.append(function)
        return function

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the functions."""
        if scope["type"] == "lifespan":
            await receive()
            for function in self._startups:
                function()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        outcome = await _outcome(self._asks[scope["path"]])
        text, status = outcome if isinstance(outcome, tuple) else (outcome, 200)
        await send({"type": "http.response.start", "status": status})
        await send({"type": "http.response.body", "body": text.encode()})


async def _outcome(ask: Ask) -> Any:
    try:
        return await ask()
    except Exception:
        return traceback.format_exc(), 500
