"""The endpoints of `test_contract.py` on Django: `app` speaks ASGI, `wsgi` WSGI.

A whole project in one file: sessions in SQLite, in the folder that DATABASE_FOLDER names.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.handlers.asgi import ASGIRequest
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path, reverse

settings.configure(
    SECRET_KEY="only for tests",  # noqa: S106
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["test"],
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.sessions"],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": Path(os.environ["DATABASE_FOLDER"]) / "db.sqlite3",
        }
    },
    LOGGING_CONFIG=None,
)
django.setup()
call_command("migrate", verbosity=0)


def hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello", content_type="text/plain")


def item(request: HttpRequest, id: int) -> HttpResponse:
    return JsonResponse({"id": id, "q": request.GET["q"]})


def echo(request: HttpRequest) -> HttpResponse:
    return JsonResponse(json.loads(request.body), safe=False)


def form(request: HttpRequest) -> HttpResponse:
    return JsonResponse(request.POST.dict())


def upload(request: HttpRequest) -> HttpResponse:
    file: Any = request.FILES["file"]
    digest = hashlib.sha256(file.read()).hexdigest()
    is_on_disk = hasattr(file, "temporary_file_path")
    found = {"title": request.POST["title"], "name": file.name, "digest": digest}
    return JsonResponse(found, headers={"x-on-disk": str(is_on_disk)})


def count(request: HttpRequest) -> HttpResponse:
    return JsonResponse(sum(iter(lambda: len(request.read(4096)), 0)), safe=False)


def stream(request: HttpRequest) -> StreamingHttpResponse:
    async def later() -> AsyncIterator[str]:
        for each in range(5):
            yield f"part {each}\n"
            await asyncio.sleep(0)

    def now() -> Iterator[str]:
        for each in range(5):
            yield f"part {each}\n"

    parts = later() if isinstance(request, ASGIRequest) else now()
    return StreamingHttpResponse(parts, content_type="text/plain")


def cookies(request: HttpRequest) -> HttpResponse:
    response = JsonResponse(request.COOKIES)
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def url(request: HttpRequest) -> HttpResponse:
    return HttpResponse(reverse("hello"), content_type="text/plain")


def raises(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("on purpose")


def visit(request: HttpRequest) -> HttpResponse:
    request.session["visits"] = request.session.get("visits", 0) + 1
    return JsonResponse({"visits": request.session["visits"]})


async def waits(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0.01)
    return HttpResponse("waited", content_type="text/plain")


urlpatterns = [
    path("hello", hello, name="hello"),
    path("items/<int:id>", item),
    path("json", echo),
    *(path(each.__name__, each) for each in (form, upload, count, stream, cookies)),
    *(path(each.__name__, each) for each in (url, raises, visit, waits)),
]
app = get_asgi_application()
wsgi = get_wsgi_application()
