"""The endpoints of `test_contract.py` on Bottle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from bottle import Bottle, request, response

app = Bottle()


@app.get("/hello")
def hello() -> str:
    response.content_type = "text/plain"
    return "hello"


@app.get("/items/<id:int>")
def item(id: int) -> dict[str, Any]:
    return {"id": id, "q": request.query.q}


@app.post("/json")
def echo() -> Any:
    return request.json


@app.post("/form")
def form() -> dict[str, str]:
    return {name: request.forms.getunicode(name) for name in request.forms}


@app.post("/upload")
def upload() -> dict[str, str]:
    file = request.files["file"]
    digest = hashlib.sha256(file.file.read()).hexdigest()
    return {"title": request.forms["title"], "name": file.filename, "digest": digest}


@app.post("/count")
def count() -> str:
    body = request.body  # asked for again, it is at its begin
    return str(sum(iter(lambda: len(body.read(4096)), 0)))


@app.get("/stream")
def stream() -> Iterator[str]:
    response.content_type = "text/plain"
    for each in range(5):
        yield f"part {each}\n"


@app.get("/cookies")
def cookies() -> dict[str, str]:
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return dict(request.cookies)


@app.get("/url")
def url() -> str:
    return str(app.get_url("/hello"))


@app.get("/raises")
def raises() -> None:
    raise RuntimeError("on purpose")
