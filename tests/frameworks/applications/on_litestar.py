"""The endpoints of `test_contract.py` on Litestar."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import Cookie, UploadFile
from litestar.params import FromPath, FromQuery, JSONBody, MultipartBody, URLEncodedBody
from litestar.response import Stream

Data = dict[str, Any]


@get("/hello", media_type=MediaType.TEXT, name="hello")
async def hello() -> str:
    return "hello"


@get("/items/{id:int}")
async def item(id: FromPath[int], q: FromQuery[str]) -> Data:
    return {"id": id, "q": q}


@post("/json", status_code=200)
async def echo(data: JSONBody[Data]) -> Data:
    return data


@post("/form", status_code=200)
async def form(data: URLEncodedBody[Data]) -> Data:
    return data


@post("/upload", status_code=200)
async def upload(data: MultipartBody[Data]) -> Data:
    file: UploadFile = data["file"]
    digest = hashlib.sha256(await file.read()).hexdigest()
    return {"title": data["title"], "name": file.filename, "digest": digest}


@post("/count", status_code=200)
async def count(request: Request[Any, Any, Any]) -> int:
    return sum([len(part) async for part in request.stream()])


@get("/stream")
async def stream() -> Stream:
    async def parts() -> AsyncIterator[str]:
        for each in range(5):
            yield f"part {each}\n"

    return Stream(parts(), media_type=MediaType.TEXT)


@get("/cookies")
async def cookies(request: Request[Any, Any, Any]) -> Response[Data]:
    return Response(request.cookies, cookies=[Cookie("a", value="1"), Cookie("b", value="2")])


@get("/url", media_type=MediaType.TEXT)
async def url(request: Request[Any, Any, Any]) -> str:
    return request.url_for("hello").partition("//")[2].partition("/")[2]


@get("/raises")
async def raises() -> None:
    raise RuntimeError("on purpose")


async def start(app: Litestar) -> None:
    app.state.is_started = True


@get("/state")
async def state(request: Request[Any, Any, Any]) -> bool:
    return bool(request.app.state.is_started)


app = Litestar(
    [hello, item, echo, form, upload, count, stream, cookies, url, raises, state],
    on_startup=[start],
)
