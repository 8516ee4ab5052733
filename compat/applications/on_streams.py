"""Events by Starlette, FastAPI, sse-starlette, Litestar and Quart.

The application reports afterwards which streams have ended, so that a client can leave and ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import litestar
import quart
from litestar.response import ServerSentEvent, Stream
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Mount, Route

ended: list[str] = []


async def three(name: str) -> AsyncIterator[str]:
    """Give three events."""
    for number in range(3):
        yield f"{name} {number}"
        await asyncio.sleep(0)


async def endless(name: str) -> AsyncIterator[str]:
    """Give one event, wait, and note the end."""
    try:
        yield f"{name} began"
        while True:
            await asyncio.sleep(0.05)
            yield f"{name} goes on"
    finally:
        ended.append(name)


async def waiting(name: str) -> AsyncIterator[str]:
    """Give one event, wait without another, and note the end."""
    try:
        yield f"{name} began"
        await asyncio.get_running_loop().create_future()
    finally:
        ended.append(f"{name}, waiting")


def kind(name: str, path: str) -> AsyncIterator[str]:
    """Give the events for a path."""
    return {"endless": endless, "waiting": waiting, "three": three}[path](name)


async def by_starlette(request: Any) -> StreamingResponse:
    """Respond with parts."""
    return StreamingResponse(
        kind("starlette", request.path_params["path"]), 200, None, "text/plain"
    )


on_fastapi = fastapi.FastAPI()


@on_fastapi.get("/events/{path}")
async def by_fastapi(path: str) -> StreamingResponse:
    """Respond with parts."""
    return StreamingResponse(kind("fastapi", path), 200, None, "text/plain")


async def by_sse_starlette(request: Any) -> EventSourceResponse:
    """Respond with events."""
    return EventSourceResponse(kind("sse-starlette", request.path_params["path"]))


@litestar.get("/events/{path:str}")
async def by_litestar(path: str) -> ServerSentEvent:
    """Respond with events."""
    return ServerSentEvent(kind("litestar", path))


@litestar.get("/plain/{path:str}")
async def plain_by_litestar(path: str) -> Stream:
    """Respond with parts."""
    return Stream(kind("litestar-plain", path))


on_quart = quart.Quart(__name__)


@on_quart.get("/events/<path>")
async def by_quart(path: str) -> Any:
    """Respond with events."""

    async def events() -> AsyncIterator[str]:
        async for each in kind("quart", path):
            yield f"data: {each}\n\n"

    response = await quart.make_response(events(), {"Content-Type": "text/event-stream"})
    response.timeout = None
    return response


async def which_ended(request: Any) -> JSONResponse:
    """Say which streams have ended."""
    return JSONResponse(sorted(ended))


app = Starlette(
    routes=[
        Route("/starlette/events/{path}", by_starlette),
        Mount("/fastapi", on_fastapi),
        Route("/sse-starlette/events/{path}", by_sse_starlette),
        Mount(
            "/litestar", litestar.Litestar([by_litestar, plain_by_litestar], openapi_config=None)
        ),
        Mount("/quart", on_quart),
        Route("/ended", which_ended),
    ]
)


def observe(url: str) -> dict[str, Any]:
    """Read whole streams, then leave endless ones and see that they end."""
    import time

    import httpx

    seen: dict[str, Any] = {}
    names = ("starlette", "fastapi", "sse-starlette", "litestar", "quart")
    paths = [*(f"{name}/events" for name in names), "litestar/plain"]
    with httpx.Client(base_url=url, timeout=10) as client:
        for path in paths:
            response = client.get(f"/{path}/three")
            seen[path] = (response.status_code, response.headers["content-type"], response.text)
        endings = [f"/{path}/{way}" for path in paths for way in ("endless", "waiting")]
        for target in endings:
            with httpx.Client(base_url=url, timeout=10) as leaving:
                with leaving.stream("GET", target) as stream:
                    next(stream.iter_raw())
        deadline = time.monotonic() + 3
        found: list[str] = []
        while len(found) < len(endings) and time.monotonic() < deadline:
            time.sleep(0.05)
            found = client.get("/ended").json()
        seen["ended within three seconds"] = found
    return seen
