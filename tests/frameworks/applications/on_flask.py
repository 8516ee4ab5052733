"""The endpoints of `test_contract.py` on Flask."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from flask import Flask, Response, jsonify, request, session, stream_with_context, url_for


def create_app() -> Flask:
    """Make the application, as Flask's own documents have it."""
    app = Flask(__name__)
    app.secret_key = "only for tests"  # noqa: S105
    for path, method, endpoint in ROUTES:
        app.add_url_rule(path, view_func=endpoint, methods=[method])
    return app


def hello() -> Response:
    return Response("hello", mimetype="text/plain")


def item(id: int) -> Any:
    return {"id": id, "q": request.args["q"]}


def echo() -> Response:
    return jsonify(request.get_json())


def form() -> Any:
    return dict(request.form)


def upload() -> Any:
    file = request.files["file"]
    digest = hashlib.sha256(file.read()).hexdigest()
    return {"title": request.form["title"], "name": file.filename, "digest": digest}


def count() -> Response:
    return jsonify(sum(iter(lambda: len(request.stream.read(4096)), 0)))


def stream() -> Response:
    def parts() -> Iterator[str]:
        for each in range(5):
            yield f"part {each}\n" if request.path == "/stream" else "no context"

    return Response(stream_with_context(parts()), mimetype="text/plain")


def cookies() -> Response:
    response = jsonify(dict(request.cookies))
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def url() -> str:
    return url_for("hello")


def raises() -> None:
    raise RuntimeError("on purpose")


def visit() -> Any:
    session["visits"] = session.get("visits", 0) + 1
    return {"visits": session["visits"]}


ROUTES = [
    ("/hello", "GET", hello),
    ("/items/<int:id>", "GET", item),
    ("/json", "POST", echo),
    ("/form", "POST", form),
    ("/upload", "POST", upload),
    ("/count", "POST", count),
    *((f"/{each.__name__}", "GET", each) for each in (stream, cookies, url, raises, visit)),
]
app = create_app()
