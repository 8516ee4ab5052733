"""The endpoints of `test_contract.py` on Falcon, which speaks ASGI here."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from falcon.asgi import App, Request, Response


class Endpoints:
    """Every endpoint, by Falcon's suffixes, and middleware that hears of the startup."""

    is_started = False

    async def process_startup(self, scope: Any, event: Any) -> None:
        self.is_started = True

    async def on_get_state(self, request: Request, response: Response) -> None:
        response.media = self.is_started

    async def on_get_hello(self, request: Request, response: Response) -> None:
        response.content_type, response.text = "text/plain", "hello"

    async def on_get_item(self, request: Request, response: Response, id: int) -> None:
        response.media = {"id": id, "q": request.get_param("q")}

    async def on_post_json(self, request: Request, response: Response) -> None:
        response.media = await request.get_media()

    async def on_post_form(self, request: Request, response: Response) -> None:
        response.media = dict(await request.get_media())

    async def on_post_upload(self, request: Request, response: Response) -> None:
        found = {}
        async for part in await request.get_media():
            if part.name == "file":
                digest = hashlib.sha256(await part.stream.read()).hexdigest()
                found.update(name=part.filename, digest=digest)
            else:
                found[part.name] = await part.text
        response.media = found

    async def on_post_count(self, request: Request, response: Response) -> None:
        response.media = sum([len(part) async for part in request.stream])

    async def on_get_stream(self, request: Request, response: Response) -> None:
        async def parts() -> AsyncIterator[bytes]:
            for each in range(5):
                yield f"part {each}\n".encode()

        response.content_type, response.stream = "text/plain", parts()

    async def on_get_cookies(self, request: Request, response: Response) -> None:
        response.media = request.cookies
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")

    async def on_get_url(self, request: Request, response: Response) -> None:
        response.content_type, response.text = "text/plain", f"{request.root_path}/hello"

    async def on_get_raises(self, request: Request, response: Response) -> None:
        raise RuntimeError("on purpose")


endpoints = Endpoints()
app = App(middleware=[endpoints])
for method in dir(Endpoints):
    if method.startswith("on_"):
        suffix = method.split("_")[2]
        path = "/items/{id:int}" if suffix == "item" else f"/{suffix}"
        app.add_route(path, endpoints, suffix=suffix)
