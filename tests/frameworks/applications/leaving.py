"""Streams on several frameworks, each in a factory of its own, and how many of them have not ended.

`/wait` sends a part and waits for ever, `/flood` sends without end, `/late` responds after a while.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

App = Callable[[Any, Any, Any], Awaitable[None]]
LATE_S = 0.2
TYPE = "text/event-stream"


async def wait() -> AsyncIterator[bytes]:
    """Yield one part."""
    yield b"data: part\n\n"
    await asyncio.get_running_loop().create_future()


async def flood() -> AsyncIterator[bytes]:
    """Yield parts without end."""
    while True:
        yield b"data: " + b"x" * 20_000 + b"\n\n"
        await asyncio.sleep(0.01)


def work() -> None:
    """Do what a response leaves to be done."""
    print("worked", file=sys.stderr, flush=True)


def counted(app: App) -> App:
    """Let `/open` report how many calls have not ended, and what was raised by those that have."""
    calls: list[object] = []
    raised: list[str] = []

    async def count(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/open":
            body = json.dumps([len(calls), raised]).encode()
            await send({"type": "http.response.start", "status": 200})
            return await send({"type": "http.response.body", "body": body})
        call = object()
        calls.append(call)
        try:
            await app(scope, receive, send)
        except BaseException as error:
            if scope["type"] == "http":
                raised.append(repr(error))
            raise
        finally:
            calls.remove(call)

    return count


def plain_starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(STREAMS[request.url.path](), media_type=TYPE)

    async def late(request: Request) -> PlainTextResponse:
        await asyncio.sleep(LATE_S)
        return PlainTextResponse("late")

    async def late_work(request: Request) -> JSONResponse:
        print("called", file=sys.stderr, flush=True)
        await asyncio.sleep(LATE_S)
        return JSONResponse("late", background=BackgroundTask(work))

    app = Starlette()
    app.add_route("/late-work", late_work)
    app.add_route("/wait", stream)
    app.add_route("/flood", stream)
    app.add_route("/late", late)
    return app


def starlette() -> App:
    return counted(plain_starlette())


def starlette_with_middleware() -> App:
    from starlette.middleware.base import BaseHTTPMiddleware

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    app = plain_starlette()
    app.add_middleware(BaseHTTPMiddleware, dispatch=passing)
    return counted(app)


def sse_starlette() -> App:
    from sse_starlette.sse import EventSourceResponse
    from starlette.requests import Request

    async def stream(request: Request) -> EventSourceResponse:
        async def events() -> AsyncIterator[dict[str, str]]:
            async for part in STREAMS[request.url.path]():
                yield {"data": part.decode().strip().removeprefix("data: ")}

        return EventSourceResponse(events())

    app = plain_starlette()
    app.routes.clear()
    app.add_route("/wait", stream)
    app.add_route("/flood", stream)
    app.routes.extend(each for each in plain_starlette().routes if each.path == "/late")
    return counted(app)


def fastapi() -> App:
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse, StreamingResponse

    app = FastAPI()

    @app.get("/wait")
    async def waiting() -> StreamingResponse:
        return StreamingResponse(wait(), media_type=TYPE)

    @app.get("/flood")
    async def flooding() -> StreamingResponse:
        return StreamingResponse(flood(), media_type=TYPE)

    @app.get("/late")
    async def late() -> PlainTextResponse:
        await asyncio.sleep(LATE_S)
        return PlainTextResponse("late")

    return counted(app)


def litestar() -> App:
    from litestar import Litestar, MediaType, get
    from litestar.response import Stream

    @get("/wait")
    async def waiting() -> Stream:
        return Stream(wait(), media_type=TYPE)

    @get("/flood")
    async def flooding() -> Stream:
        return Stream(flood(), media_type=TYPE)

    @get("/late", media_type=MediaType.TEXT)
    async def late() -> str:
        await asyncio.sleep(LATE_S)
        return "late"

    return counted(Litestar([waiting, flooding, late], signature_namespace={"Stream": Stream}))


def quart() -> App:
    from quart import Quart, Response

    app = Quart(__name__)

    @app.get("/wait")
    async def waiting() -> Response:
        return Response(wait(), content_type=TYPE)

    @app.get("/flood")
    async def flooding() -> Response:
        return Response(flood(), content_type=TYPE)

    @app.get("/late")
    async def late() -> str:
        await asyncio.sleep(LATE_S)
        return "late"

    return counted(app)


def django() -> App:
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.http import HttpResponse, StreamingHttpResponse
    from django.urls import path

    async def stream(request: Any) -> StreamingHttpResponse:
        return StreamingHttpResponse(STREAMS[request.path](), content_type=TYPE)

    async def late(request: Any) -> HttpResponse:
        await asyncio.sleep(LATE_S)
        return HttpResponse("late")

    urls = (path("wait", stream), path("flood", stream), path("late", late))
    settings.configure(
        SECRET_KEY="only for tests",  # noqa: S106
        ROOT_URLCONF=urls,
        ALLOWED_HOSTS=["test"],
        USE_TZ=True,
    )
    return counted(get_asgi_application())


STREAMS = {"/wait": wait, "/flood": flood}
