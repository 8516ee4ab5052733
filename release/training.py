"""Serves and loads what production servers do, for the compiler to learn from (`maturin --pgo`).

    maturin build --release --pgo
    python release/training.py --short    # a hundredth of the requests: does every lesson work?

maturin builds the core with counters, installs it, runs this, and builds again with what the
counters say: which branches are taken and which functions call each other. Server and generator
both learn. The counters are written when a process ends, so the server runs in this process, not
in a worker, which ends without exit functions.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from bolide import App, Response
from bolide.config.settings import resolve
from bolide.server import importer, listener, loop
from bolide.server.service import Service
from bolide.server.tls.certificates import Certificates

PLAIN: dict[str, Any] = {}
TLS = {"certificate": "self-signed"}
QUEUE = {"queue_max": 10_000}
DRAIN_S = 10.0

native = App()


@native.get("/")
def hello(request):
    """Return a text."""
    return "Hello, World!"


@native.get("/async")
async def hello_async(request):
    """Return a text from a coroutine that never suspends."""
    return "Hello, World!"


@native.get("/slow")
async def slow(request):
    """Return a text after a turn of the event loop."""
    await asyncio.sleep(0)
    return Response(text="Hello, World!", headers={"X-Host": request.headers["host"]})


@native.get("/users/{id:int}")
def user(request, id):
    """Return JSON with a path parameter and one of the query."""
    return {"user": id, "page": request.query.get("page", "")}


@native.post("/upload")
async def upload(request):
    """Read the content, and return its length."""
    return str(len(await request.body()))


@native.websocket("/echo")
async def echo(ws):
    """Send every message back."""
    async for message in ws:
        await ws.send(message)


@native.websocket("/broadcast")
async def broadcast(ws):
    """Send every message to all connections."""
    ws.subscribe("all")
    async for message in ws:
        native.publish("all", message)


FIELDS = [(b"content-type", b"text/plain"), (b"content-length", b"13")]


async def asgi(scope, receive, send):
    """Respond as a small framework does: at once, in parts, after reading, and to WebSockets."""
    if scope["type"] == "lifespan":
        while (event := await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": f"{event['type']}.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"]})
    elif scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": FIELDS[:1]})
        for _ in range(20):
            await send({"type": "http.response.body", "body": b"x" * 16384, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    else:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": FIELDS})
        await send({"type": "http.response.body", "body": b"Hello, World!"})


def wsgi(environ, start_response):
    """Read the content, and respond in one part, or in several."""
    environ["wsgi.input"].read()
    if environ["PATH_INFO"] == "/stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * 16384] * 20
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"Hello, World!"]


@dataclass(frozen=True)
class Lesson:
    """A number of requests for one application, by `bolide load` with some options."""

    app: Any
    settings: dict[str, Any]
    target: str
    load: tuple[str, ...]
    scheme: str = "http"


BROWSER = (
    *("-H", "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0"),
    *("-H", "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"),
    *("-H", "Accept-Encoding: gzip, deflate, br", "-H", "Cookie: session=0123456789abcdef"),
)
SHARE = 100 if "--short" in sys.argv else 1
MANY, SOME, FEW = (("-n", str(number // SHARE)) for number in (200_000, 20_000, 2_000))
DEEP = ("--pipeline", "24", *MANY)
STREAMS = ("--http2", "--streams", "16", *SOME)
CONTENT = ("--body", "x" * 4096, *SOME)
LARGE = ("--body", "x" * 100_000, *FEW)

LESSONS = [
    *(Lesson(native, PLAIN, path, DEEP) for path in ("/", "/async", "/users/5?page=2")),
    *(Lesson(native, PLAIN, path, SOME) for path in ("/", "/async", "/slow", "/users/5")),
    Lesson(native, PLAIN, "/", (*BROWSER, *SOME)),
    Lesson(native, PLAIN, "/", ("--no-keep-alive", *FEW)),
    Lesson(native, PLAIN, "/upload", CONTENT),
    Lesson(native, PLAIN, "/upload", LARGE),
    *(Lesson(asgi, PLAIN, "/", load) for load in (DEEP, SOME, CONTENT)),
    *(Lesson(wsgi, QUEUE, "/", load) for load in (DEEP, SOME, CONTENT)),
    *(Lesson(app, PLAIN, "/stream", FEW) for app in (asgi, wsgi)),
    *(Lesson(wsgi, {"threads": 1}, "/", load) for load in (DEEP, SOME)),
    *(Lesson(app, TLS, "/", STREAMS, "https") for app in (native, asgi)),
    Lesson(wsgi, TLS | QUEUE, "/", STREAMS, "https"),
    *(Lesson(app, TLS, "/", SOME, "https") for app in (native, asgi)),
    Lesson(native, TLS, "/upload", ("--http2", *LARGE), "https"),
    Lesson(asgi, TLS, "/stream", ("--http2", *FEW), "https"),
    Lesson(native, TLS, "/", ("--no-keep-alive", *FEW), "https"),
    *(Lesson(app, PLAIN, "/echo", SOME, "ws") for app in (native, asgi)),
    *(Lesson(app, PLAIN, "/echo", ("--depth", "24", *MANY), "ws") for app in (native, asgi)),
    Lesson(native, PLAIN, "/echo", ("--compress", "--message-bytes", "1024", *SOME), "ws"),
    Lesson(native, PLAIN, "/echo", ("--message-bytes", "16384", *FEW), "ws"),
    Lesson(native, PLAIN, "/broadcast", ("--pattern", "broadcast", "-d", "500ms"), "ws"),
]


def learn(lesson: Lesson) -> None:
    """Serve the application in this process while it is loaded from another."""
    settings = resolve({"port": 0, **lesson.settings}, config=None)
    certificates = Certificates(settings) if settings.pairs else None
    app = importer.check(lesson.app, "training", settings)
    service = Service(app, settings, None, certificates.current if certificates else None)
    with asyncio.Runner(loop_factory=lambda: loop.new("asyncio", service.server)) as runner:
        runner.run(_learn(lesson, service, listener.open_all(settings.addresses)))


async def _learn(lesson: Lesson, service: Service, listeners: list[listener.Listener]) -> None:
    await service.startup(own_selector=True)
    await service.listen(listeners)
    port = listeners[0].socket.getsockname()[1]
    url = f"{lesson.scheme}://127.0.0.1:{port}{lesson.target}"
    secure = ("--insecure",) if lesson.scheme == "https" else ()
    words = ("-m", "bolide", "load", url, *lesson.load, *secure, "--quiet", "--timeout", "60")
    load = await asyncio.create_subprocess_exec(
        sys.executable, *words, "--require", "errors == 0", stdout=asyncio.subprocess.DEVNULL
    )
    code = await load.wait()
    await service.stop(DRAIN_S)
    listener.close_all(listeners)
    if code:
        sys.exit(f"training: bolide load {url} ended with exit code {code}")


if __name__ == "__main__":
    for each in LESSONS:
        learn(each)
