"""Work after responses, as Starlette and Django offer it: it goes on until a file is there."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from django.urls import path
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

GO = os.environ["GO"]
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY=os.urandom(8).hex())
django.setup(set_prefix=False)


def say(text: str) -> None:
    """Write a line that the test reads."""
    print(text, file=sys.stderr, flush=True)


async def work() -> None:
    """Wait as coroutines do."""
    say("work begins")
    while not os.path.exists(GO):
        await asyncio.sleep(0.01)
    say("work ends")


async def compute() -> None:
    """Keep the thread."""
    say("work begins")
    while not os.path.exists(GO):
        time.sleep(0.001)
    say("work ends")


async def wait(request: Request) -> Response:
    """Respond, and go on."""
    return PlainTextResponse("done", background=BackgroundTask(work))


async def block(request: Request) -> Response:
    """Respond, and keep the thread."""
    return PlainTextResponse("done", background=BackgroundTask(compute))


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Say when it ends."""
    yield
    say("shutdown")


routes = [Route("/wait", wait), Route("/block", block)]
starlette = Starlette(routes=routes, lifespan=lifespan)


def view(request: HttpRequest) -> HttpResponse:
    """Respond; `finished` goes on."""
    return HttpResponse("done")


def finished(**_: Any) -> None:
    """Keep the thread that Django calls receivers in."""
    say("work begins")
    while not os.path.exists(GO):
        time.sleep(0.001)
    say("work ends")


urlpatterns = [path("wait", view)]
request_finished.connect(finished)
django_asgi = ASGIHandler()
