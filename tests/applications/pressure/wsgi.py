"""The WSGI application: the path says what it does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from state import PART, block_thread, fork, seen

Environ = dict[str, Any]

released = threading.Event()


def app(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the path says."""
    kind, *arguments = environ["PATH_INFO"].removeprefix("/").split("/")
    content = KINDS[kind](environ, *arguments)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [content] if isinstance(content, bytes) else content


def hello(environ: Environ) -> bytes:
    """Respond at once."""
    return b"hello"


def early(environ: Environ) -> bytes:
    """Respond without reading the content."""
    return b"early"


def held(environ: Environ, size: str) -> bytes:
    """Wait for a release, and respond with so many bytes without reading the content."""
    seen["held"] += 1
    assert released.wait(20)
    return b"h" * int(size)


def release(environ: Environ) -> bytes:
    """Let those go on that wait."""
    global released
    released.set()
    released = threading.Event()
    return b"released"


def show(environ: Environ) -> bytes:
    return json.dumps(seen).encode()


def block(environ: Environ, milliseconds: str, number: str) -> bytes:
    """Block the thread, and respond with the number."""
    block_thread(int(milliseconds))
    return number.encode()


def big(environ: Environ, size: str) -> bytes:
    """Respond with so many bytes."""
    return b"b" * int(size)


def parts(environ: Environ, count: str) -> Iterable[bytes]:
    """Stream parts."""
    return (PART for _ in range(int(count)))


def part_held(environ: Environ) -> Iterable[bytes]:
    """Stream a part, and wait for a release before the next."""
    yield PART
    seen["held"] += 1
    assert released.wait(20)
    yield PART


def read(environ: Environ) -> bytes:
    """Respond with the size of the content."""
    return b"%d" % len(environ["wsgi.input"].read())


def read_big(environ: Environ, size: str) -> bytes:
    """Read the content, and respond with so many bytes."""
    environ["wsgi.input"].read()
    return big(environ, size)


def fork_child(environ: Environ) -> bytes:
    """Fork a process, and respond with its id."""
    return str(fork()).encode()


KINDS: dict[str, Callable[..., bytes | Iterable[bytes]]] = {
    "hello": hello,
    "early": early,
    "held": held,
    "release": release,
    "seen": show,
    "block": block,
    "big": big,
    "parts": parts,
    "part-held": part_held,
    "read": read,
    "read-big": read_big,
    "fork": fork_child,
}
