"""The endpoints of `test_contract.py`, and what `test_starlette.py` asks for, on Starlette."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.responses import StreamingResponse as Streaming
from starlette.routing import Route

SEEN: dict[str, Any] = {"watched": 0, "streams_ended": 0, "background": 0}


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
    yield {"visits": [], "loop": id(asyncio.get_running_loop())}


class Marking(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["x-marked"] = request.method
        return response


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def item(request: Request) -> Response:
    return JSONResponse({"id": request.path_params["id"], "q": request.query_params["q"]})


async def echo(request: Request) -> Response:
    return JSONResponse(await request.json())


async def form(request: Request) -> Response:
    async with request.form() as fields:
        return JSONResponse(dict(fields))


async def upload(request: Request) -> Response:
    async with request.form() as fields:
        file = fields["file"]
        content = await file.read()
        digest = hashlib.sha256(content).hexdigest()
        return JSONResponse({"title": fields["title"], "name": file.filename, "digest": digest})


async def count(request: Request) -> Response:
    return JSONResponse(sum([len(part) async for part in request.stream()]))


async def parts(number: int) -> AsyncIterator[str]:
    for each in range(number):
        yield f"part {each}\n"
        await asyncio.sleep(0)


async def stream(request: Request) -> Response:
    return Streaming(parts(5), media_type="text/plain")


async def cookies(request: Request) -> Response:
    response = JSONResponse(request.cookies)
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


async def url(request: Request) -> Response:
    return PlainTextResponse(request.url_for("hello").path)


async def raises(request: Request) -> Response:
    raise RuntimeError("on purpose")


async def state(request: Request) -> Response:
    request.state.visits.append(request.url.path)
    is_same_loop = request.state.loop == id(asyncio.get_running_loop())
    return JSONResponse([len(request.state.visits), is_same_loop])


async def watch(request: Request) -> Response:
    while not await request.is_disconnected():
        await asyncio.sleep(0.01)
    SEEN["watched"] += 1
    return PlainTextResponse("nobody reads this")


async def endless(request: Request) -> Response:
    async def blocks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            SEEN["streams_ended"] += 1

    return Streaming(blocks())


async def background(request: Request) -> Response:
    async def work() -> None:
        await asyncio.sleep(0.01)
        SEEN["background"] += 1

    return PlainTextResponse(str(SEEN["background"]), background=BackgroundTask(work))


async def file(request: Request) -> Response:
    return FileResponse(__file__, media_type="text/plain")


async def seen(request: Request) -> Response:
    gc.collect()  # a task group of anyio keeps what a cancelled task had in a cycle
    return JSONResponse(SEEN)


def route(path: str, endpoint: Any, method: str = "GET") -> Route:
    return Route(path, endpoint, methods=[method])


app = Starlette(
    routes=[
        route("/hello", hello),
        route("/items/{id:int}", item),
        route("/json", echo, "POST"),
        route("/form", form, "POST"),
        route("/upload", upload, "POST"),
        route("/count", count, "POST"),
        *(route(f"/{each.__name__}", each) for each in (stream, cookies, url, raises)),
        *(route(f"/{each.__name__}", each) for each in (state, watch, endless, background)),
        *(route(f"/{each.__name__}", each) for each in (file, seen)),
    ],
    lifespan=lifespan,
)
marked = Starlette(
    routes=[route("/hello", hello), route("/stream", stream), route("/raises", raises)],
    middleware=[Middleware(Marking)],
)
