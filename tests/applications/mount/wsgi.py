"""A WSGI application that reports what it sees."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from context import context, note, seen

GATE = threading.Event()
Environ = dict[str, Any]


def app(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the last segment of the path says."""
    start_response("200 OK", [])
    return KINDS.get(environ["PATH_INFO"].rpartition("/")[2], shown)(environ)


def shown(environ: Environ) -> Iterable[bytes]:
    words = [environ["SCRIPT_NAME"], environ["PATH_INFO"], environ["RAW_URI"]]
    return [" ".join(words).encode("latin-1")]


def now(environ: Environ) -> Iterable[bytes]:
    return [context().encode()]


def parts(environ: Environ) -> Iterator[bytes]:
    for _ in range(3):
        yield context().encode()


def endless(environ: Environ) -> Iterator[bytes]:
    try:
        while True:
            yield b"begun" * 4096
    finally:
        note("wsgi")


def count(environ: Environ) -> Iterable[bytes]:
    return [str(len(environ["wsgi.input"].read())).encode()]


def held(environ: Environ) -> Iterable[bytes]:
    seen["held"] = seen.get("held", 0) + 1
    GATE.wait()
    GATE.clear()
    return [b"held"]


def raises(environ: Environ) -> Iterable[bytes]:
    context()
    raise RuntimeError("on purpose")


KINDS = {each.__name__: each for each in (now, parts, endless, count, held, raises)}
