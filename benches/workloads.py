"""What is measured: the requests, and the application that responds."""

from dataclasses import dataclass, replace
from typing import Any

HELLO = b"Hello, World!"
STREAMED = b"x" * 65536
UPLOAD_BYTES = 1 << 20

CONNECTIONS = 100
IDLE_CONNECTIONS = 10_000

# What a browser sends (with Host, which the generator adds, 12 field lines and about 600 bytes).
BROWSER_FIELDS = (
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/142.0.0.0 Safari/537.36",
    ),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "http://localhost/users/42/posts"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Cache-Control", "max-age=0"),
    ("Cookie", "session=7c1e0b2f9a4d4c6e8f3b5a1d2c4e6f80"),
)


@dataclass(frozen=True)
class Workload:
    """One kind of load, by one generator thread."""

    name: str
    target: str = "/"
    depth: int = 1
    persistent: bool = True
    fields: tuple[tuple[str, str], ...] = ()
    interface: str = "native"
    """native, asgi or wsgi."""
    application: str = "benches/app.py:app"
    is_framework: bool = False
    connections: int = CONNECTIONS
    upload_bytes: int | None = None
    """How much content each request has, which makes it a POST."""
    expected: bytes | None = HELLO
    """The content of each response. None: that of the first one."""
    timed_application: str | None = None
    """What the application times; see `timed`."""
    asks_echo: bool = False
    """The application asks a server of its own, `echo.py`."""


DEF_24 = Workload("def-24", "/", depth=24)
NUMBERED_24 = Workload("numbered-24", "/numbered", depth=24)
ASYNC_24 = Workload("async-24", "/async", depth=24)
DEF_1 = Workload("def-1", "/")
ASYNC_1 = Workload("async-1", "/async")
BROWSER = Workload("browser", "/users/42/posts/a-first-post", fields=BROWSER_FIELDS, expected=None)
CLOSE = Workload("close", "/", persistent=False)


def _asgi(name: str, application: str = "hello_asgi:hello", **more: Any) -> Workload:
    return Workload(name, interface="asgi", application=application, **more)


def _wsgi(name: str, application: str = "hello_wsgi:hello", **more: Any) -> Workload:
    return Workload(name, interface="wsgi", application=application, **more)


ASGI = _asgi("asgi")
ASGI_24 = _asgi("asgi-deep", depth=24)
ASGI_BROWSER = _asgi("asgi-browser", fields=BROWSER_FIELDS)
ASGI_SLEEP = _asgi("asgi-sleep", "hello_asgi:sleep", connections=512)
ASGI_STREAM = _asgi("asgi-stream", "hello_asgi:stream", expected=STREAMED)
ASGI_UPLOAD = _asgi(
    "asgi-upload", "hello_asgi:upload", upload_bytes=UPLOAD_BYTES, expected=b"%d" % UPLOAD_BYTES
)
WSGI = _wsgi("wsgi")
WSGI_24 = _wsgi("wsgi-deep", depth=24)
FASTAPI = _asgi("fastapi", "hello_fastapi:app", is_framework=True)
IO_HELLO = _asgi("io-hello")
IO_SLEEP = _asgi("io-sleep", "hello_asgi:sleep", connections=512)
IO_TURN = _asgi("io-turn", "own_io:turn")
IO_STREAM = _asgi("io-stream", "own_io:stream", asks_echo=True)
IO_GATHER = _asgi("io-gather", "own_io:gather", asks_echo=True)
IO_THREAD = _asgi("io-thread", "own_io:thread")
FLASK = _wsgi("flask", "hello_flask:app", is_framework=True)
DJANGO = _wsgi("django", "hello_django:app", is_framework=True)


def timed(workload: Workload) -> Workload:
    """Give the same workload with an application that times the one that responds."""
    return replace(
        workload,
        name=f"{workload.name}-timed",
        application=f"timed:{workload.interface}",
        timed_application=workload.application,
    )
