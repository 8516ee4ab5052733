"""The endpoints of `test_contract.py` on BlackSheep."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from blacksheep import Application, Content, Cookie, Request, Response, StreamedContent, get, post
from blacksheep.server.responses import json, text

app = Application()
STATE: dict[str, bool] = {}


@app.on_start
async def start(_: Application) -> None:
    STATE["is_started"] = True


@get("/state")
async def state() -> Response:
    return json(STATE["is_started"])


@get("/hello")
async def hello() -> Response:
    return text("hello")


@get("/items/{int:id}")
async def item(id: int, q: str) -> Response:
    return json({"id": id, "q": q})


@post("/json")
async def echo(request: Request) -> Response:
    return json(await request.json())


@post("/form")
async def form(request: Request) -> Response:
    return json(await request.form())


@post("/upload")
async def upload(request: Request) -> Response:
    fields: Any = await request.form()
    (file,) = await request.files("file")
    data = file.data if isinstance(file.data, bytes) else file.data.read()
    name = file.file_name.decode() if isinstance(file.file_name, bytes) else file.file_name
    digest = hashlib.sha256(data).hexdigest()
    return json({"title": fields["title"], "name": name, "digest": digest})


@post("/count")
async def count(request: Request) -> Response:
    return json(sum([len(part) async for part in request.stream()]))


@get("/stream")
async def stream() -> Response:
    async def parts() -> AsyncIterator[bytes]:
        for each in range(5):
            yield f"part {each}\n".encode()

    return Response(200, content=StreamedContent(b"text/plain", parts))


@get("/cookies")
async def cookies(request: Request) -> Response:
    response = json(dict(request.cookies))
    response.set_cookie(Cookie("a", "1"))
    response.set_cookie(Cookie("b", "2"))
    return response


@get("/url")
async def url(request: Request) -> Response:
    return Response(200, content=Content(b"text/plain", f"{request.base_path}/hello".encode()))


@get("/raises")
async def raises() -> None:
    raise RuntimeError("on purpose")
