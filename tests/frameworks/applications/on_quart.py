"""The endpoints of `test_contract.py` on Quart."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from quart import Quart, Response, jsonify, request, url_for

app = Quart(__name__)


@app.before_serving
async def start() -> None:
    app.config["IS_STARTED"] = True


@app.get("/state")
async def state() -> Response:
    return jsonify(app.config["IS_STARTED"])


@app.get("/hello")
async def hello() -> Response:
    return Response("hello", mimetype="text/plain")


@app.get("/items/<int:id>")
async def item(id: int) -> Any:
    return {"id": id, "q": request.args["q"]}


@app.post("/json")
async def echo() -> Response:
    return jsonify(await request.get_json())


@app.post("/form")
async def form() -> Any:
    return dict(await request.form)


@app.post("/upload")
async def upload() -> Any:
    file = (await request.files)["file"]
    digest = hashlib.sha256(file.read()).hexdigest()
    return {"title": (await request.form)["title"], "name": file.filename, "digest": digest}


@app.post("/count")
async def count() -> Response:
    return jsonify(sum([len(part) async for part in request.body]))


@app.get("/stream")
async def stream() -> Any:
    async def parts() -> AsyncIterator[str]:
        for each in range(5):
            yield f"part {each}\n"

    return parts(), {"content-type": "text/plain"}


@app.get("/cookies")
async def cookies() -> Response:
    response = jsonify(dict(request.cookies))
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


@app.get("/url")
async def url() -> str:
    return url_for("hello")


@app.get("/raises")
async def raises() -> None:
    raise RuntimeError("on purpose")
