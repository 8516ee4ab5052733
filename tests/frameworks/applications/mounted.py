"""Frameworks of both interfaces below prefixes of one native application."""

from __future__ import annotations

import on_django
import on_fastapi
import on_flask
import on_starlette

from bolide import App, Request

app = App()
app.mount("/fastapi", on_fastapi.app)
app.mount("/starlette", on_starlette.app)
app.mount("/django", on_django.wsgi)
app.mount("/django/asgi", on_django.app)
app.mount("/flask", on_flask.app)


@app.get("/hello")
def hello(request: Request) -> str:
    return "native"
