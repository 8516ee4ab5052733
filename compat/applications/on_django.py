"""A site of Django: its administration, streams, uploads; over ASGI and over WSGI."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

DATABASE = Path(tempfile.mkdtemp()) / "site.sqlite3"
NAME, PASSWORD = "ada", "not a secret"
MIDDLEWARE = (
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
)
settings.configure(
    SECRET_KEY="not a secret",  # noqa: S106
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        f"django.contrib.{each}"
        for each in ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")
    ],
    MIDDLEWARE=MIDDLEWARE,
    STATIC_URL="static/",
    DEBUG=True,
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()
call_command("migrate", verbosity=0)

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler, StaticFilesHandler  # noqa: E402
from django.http import FileResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

User.objects.create_superuser(NAME, "ada@example.org", PASSWORD)


def stream(request: Any) -> StreamingHttpResponse:
    """Respond with parts of a plain generator."""

    def parts() -> Iterator[str]:
        yield from (f"part {number}\n" for number in range(100))

    return StreamingHttpResponse(parts(), content_type="text/plain")


async def async_stream(request: Any) -> StreamingHttpResponse:
    """Respond with parts of an asynchronous generator."""

    async def parts() -> AsyncIterator[str]:
        for number in range(100):
            await asyncio.sleep(0)
            yield f"part {number}\n"

    return StreamingHttpResponse(parts(), content_type="text/plain")


def file(request: Any) -> FileResponse:
    """Respond with this file."""
    return FileResponse(Path(__file__).open("rb"))


urlpatterns = [
    path("admin/", admin.site.urls),
    path("stream", stream),
    path("async-stream", async_stream),
    path("file", file),
]
app = ASGIStaticFilesHandler(get_asgi_application())
wsgi = StaticFilesHandler(get_wsgi_application())


def observe(url: str) -> dict[str, Any]:
    """Log in, make a user, look at it, and fetch the rest."""
    import hashlib
    import re

    import httpx

    def seen_of(response: Any) -> Any:
        content = re.sub(rb'(name="csrfmiddlewaretoken" value=")\w+', rb"\1", response.content)
        content = content.replace(url.removeprefix("http://").encode(), b"HOST")
        content = re.sub(rb"\d+ [ap]\.m\.|nonce=\S+|\d\d:\d\d:\d\d", b"", content)
        fields = {"content-type", "content-encoding", "location", "x-frame-options", "vary"}
        kept = {name: response.headers[name] for name in fields & response.headers.keys()}
        return response.status_code, kept, hashlib.sha256(content).hexdigest()

    seen: dict[str, Any] = {}
    with httpx.Client(base_url=url, timeout=20) as client:

        def post(target: str, **fields: str) -> Any:
            token = client.cookies["csrftoken"]
            return client.post(target, data={"csrfmiddlewaretoken": token, **fields})

        seen["login page"] = seen_of(client.get("/admin/login/"))
        seen["login"] = seen_of(
            post("/admin/login/?next=/admin/", username=NAME, password=PASSWORD)
        )
        user = {"username": "grace", "password1": "Lov3lace-1", "password2": "Lov3lace-1"}
        added = post("/admin/auth/user/add/", usable_password="true", **user)  # noqa: S106
        seen["add"] = added.status_code, added.headers.get("location")
        seen["list"] = "grace" in client.get("/admin/auth/user/").text
        seen["no token"] = client.post("/admin/auth/user/add/", data=user).status_code
        targets = ("stream", "async-stream", "file", "static/admin/css/base.css", "static/none")
        for target in targets:
            seen[target] = seen_of(client.get(f"/{target}"))
    return seen
