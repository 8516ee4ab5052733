"""Starlette's files through middleware that rewrites or counts what it passes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

HERE = Path(__file__)


class Counter:
    """Counts the octets of the last response that passed."""

    counted = 0

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve, and count."""
        Counter.counted = 0

        async def counting(message: Any) -> None:
            Counter.counted += len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, counting)


async def file(request: Any) -> FileResponse:
    """Respond with this file."""
    return FileResponse(HERE)


async def counted(request: Any) -> PlainTextResponse:
    """Say how much passed."""
    return PlainTextResponse(str(Counter.counted))


files = Starlette(
    routes=[Route("/file", file), Mount("/static", StaticFiles(directory=HERE.parent))]
)
app = Starlette(
    routes=[
        Mount("/gzip", GZipMiddleware(files)),
        Mount("/counter", Counter(files)),
        Route("/counted", counted),
    ]
)
