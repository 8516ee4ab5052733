"""Files through middleware that rewrites or counts the content."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any

from brotli_asgi import BrotliMiddleware
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

FOLDER = Path(tempfile.gettempdir()) / "bolide-compat-files"
FOLDER.mkdir(exist_ok=True)
FILE = FOLDER / "page.html"
FILE.write_text("<p>All the same, again and again.</p>\n" * 3000)


class Counter:
    """Counts the octets of each response that pass through it."""

    last = 0

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve, and count."""
        total = 0

        async def counting(message: Any) -> None:
            nonlocal total
            total += len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, counting)
        Counter.last = total


async def file(request: Any) -> FileResponse:
    """Respond with the file."""
    return FileResponse(FILE)


async def counted(request: Any) -> PlainTextResponse:
    """Say what the counter counted last."""
    return PlainTextResponse(str(Counter.last))


files = Starlette(routes=[Route("/file", file), Mount("/static", StaticFiles(directory=FOLDER))])
app = Starlette(
    routes=[
        Mount("/brotli", BrotliMiddleware(files)),
        Mount("/gzip", GZipMiddleware(files)),
        Mount("/counter", Counter(files)),
        Route("/counted", counted),
    ]
)


def observe(url: str) -> dict[str, Any]:
    """Fetch the file each way; the content is what it is after decoding."""
    import httpx

    seen: dict[str, Any] = {}
    whole = hashlib.sha256(FILE.read_bytes()).hexdigest()
    with httpx.Client(base_url=url) as client:
        for middleware in ("brotli", "gzip", "counter"):
            for path in ("file", "static/page.html"):
                response = client.get(
                    f"/{middleware}/{path}", headers={"Accept-Encoding": "gzip, br"}
                )
                seen[f"{middleware} {path}"] = (
                    response.status_code,
                    response.headers.get("content-encoding"),
                    hashlib.sha256(response.content).hexdigest() == whole,
                )
        match = re.fullmatch(r"\d+", client.get("/counted").text)
        seen["counted"] = match is not None and int(match[0]) == FILE.stat().st_size
        ranged = client.get("/counter/file", headers={"Range": "bytes=10-19"})
        seen["range"] = (ranged.status_code, ranged.headers["content-range"], ranged.text)
    return seen
