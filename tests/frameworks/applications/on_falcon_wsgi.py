"""The endpoints of `test_contract.py` on Falcon, which speaks WSGI here."""

from __future__ import annotations

import hashlib

from falcon import App, Request, Response


class Endpoints:
    """Every endpoint, by Falcon's suffixes."""

    def on_get_hello(self, request: Request, response: Response) -> None:
        response.content_type, response.text = "text/plain", "hello"

    def on_get_item(self, request: Request, response: Response, id: int) -> None:
        response.media = {"id": id, "q": request.get_param("q")}

    def on_post_json(self, request: Request, response: Response) -> None:
        response.media = request.get_media()

    def on_post_form(self, request: Request, response: Response) -> None:
        response.media = dict(request.get_media())

    def on_post_upload(self, request: Request, response: Response) -> None:
        found = {}
        for part in request.get_media():
            if part.name == "file":
                digest = hashlib.sha256(part.stream.read()).hexdigest()
                found.update(name=part.filename, digest=digest)
            else:
                found[part.name] = part.text
        response.media = found

    def on_post_count(self, request: Request, response: Response) -> None:
        response.media = len(request.bounded_stream.read())

    def on_get_stream(self, request: Request, response: Response) -> None:
        response.content_type = "text/plain"
        response.stream = (f"part {each}\n".encode() for each in range(5))

    def on_get_cookies(self, request: Request, response: Response) -> None:
        response.media = request.cookies
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")

    def on_get_url(self, request: Request, response: Response) -> None:
        response.content_type, response.text = "text/plain", f"{request.root_path}/hello"

    def on_get_raises(self, request: Request, response: Response) -> None:
        raise RuntimeError("on purpose")


endpoints = Endpoints()
app = App()
for method in dir(Endpoints):
    if method.startswith("on_"):
        suffix = method.split("_")[2]
        path = "/items/{id:int}" if suffix == "item" else f"/{suffix}"
        app.add_route(path, endpoints, suffix=suffix)
