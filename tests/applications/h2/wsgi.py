"""The WSGI application: what it was called with, and calls that cannot be cancelled."""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

calls = itertools.count()
counts: Counter[str] = Counter()
released = threading.Event()
SHOWN = (
    *("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL", "SERVER_NAME"),
    *("CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_HOST", "HTTP_COOKIE", "wsgi.url_scheme"),
)


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Do what the path says."""
    kind, *arguments = environ["PATH_INFO"].removeprefix("/").split("/")
    start_response("200 OK", [("Content-Type", "text/plain")])
    if kind == "sleep":
        next(calls)
        time.sleep(int(arguments[0]) / 1000)
        return [b"slept"]
    if kind == "hold":
        counts["started"] += 1
        released.wait(60)
        counts["finished"] += 1
        return [b"held"]
    if kind == "release":
        released.set()
    if kind == "counts":
        return [json.dumps(counts).encode()]
    if kind == "count":
        return [str(next(calls)).encode()]
    if kind == "environ":
        return [json.dumps({name: environ.get(name) for name in SHOWN}).encode()]
    if kind == "echo":
        return [environ["wsgi.input"].read()]
    if kind == "parts":
        return (b"p" * 1000 for _ in range(int(arguments[0])))
    if kind == "cut":
        return cut()
    return [b"hello"]


def cut() -> Iterable[bytes]:
    """Fail after a part."""
    yield b"half"
    raise ValueError("the other half")
