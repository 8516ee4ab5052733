"""The endpoints of `test_contract.py`, and what `test_fastapi.py` asks for, on FastAPI."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import (
    BackgroundTasks,
    Cookie,
    Depends,
    FastAPI,
    File,
    Form,
    Query,
    Request,
    UploadFile,
)
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel

app = FastAPI()
LOG: list[str] = []


class Order(BaseModel):
    name: str
    count: int = 1


async def log() -> AsyncIterator[list[str]]:
    LOG.append("opened")
    yield LOG
    LOG.append("closed")


@app.get("/hello")
async def hello() -> PlainTextResponse:
    return PlainTextResponse("hello")


@app.get("/items/{id}")
def item(id: int, q: Annotated[str, Query()]) -> dict[str, Any]:
    return {"id": id, "q": q}


@app.post("/json")
async def echo(content: dict[str, Any]) -> dict[str, Any]:
    return content


@app.post("/form")
async def form(a: Annotated[str, Form()], b: Annotated[str, Form()]) -> dict[str, str]:
    return {"a": a, "b": b}


@app.post("/upload")
async def upload(title: Annotated[str, Form()], file: UploadFile = File()) -> dict[str, Any]:  # noqa: B008 - FastAPI's own form
    digest = hashlib.sha256(await file.read()).hexdigest()
    return {"title": title, "name": file.filename, "digest": digest}


@app.post("/count")
async def count(request: Request) -> int:
    return sum([len(part) async for part in request.stream()])


@app.get("/stream")
async def stream() -> StreamingResponse:
    def parts() -> Iterator[str]:
        """Run in threads, as FastAPI does with plain generators."""
        for each in range(5):
            yield f"part {each}\n"

    return StreamingResponse(parts(), media_type="text/plain")


@app.get("/cookies")
async def cookies(
    x: Annotated[str | None, Cookie()] = None, y: Annotated[str | None, Cookie()] = None
) -> JSONResponse:
    response = JSONResponse({"x": x, "y": y})
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


@app.get("/url")
async def url(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url_for("hello").path)


@app.get("/raises")
async def raises() -> None:
    raise RuntimeError("on purpose")


@app.post("/orders", status_code=201)
async def order(
    order: Order, log: Annotated[list[str], Depends(log)], background: BackgroundTasks
) -> Order:
    log.append(f"took {order.count} {order.name}")
    background.add_task(LOG.append, "in the background")
    return order


@app.get("/log")
async def read_log() -> list[str]:
    return LOG
