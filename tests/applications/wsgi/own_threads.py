"""A WSGI application whose own threads write and read, still after their request has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

PATIENCE_S = 8
WRITTEN = threading.Event()
"""Something was written that did not have to wait for the client any more."""
RELEASED = threading.Event()
ENDED = threading.Event()
outcome: list[str] = []


def note(work: Callable[[], object]) -> None:
    """Note what the thread's work raises."""
    try:
        work()
    except Exception as error:
        outcome.append(f"{type(error).__name__}: {error}")
    else:
        outcome.append("done")
    ENDED.set()


def write_parts(write: Callable[[bytes], object], size: int) -> None:
    """Write parts of that size without end."""
    while True:
        write(bytes(size))
        WRITTEN.set()


def wait(event: threading.Event) -> bytes:
    """Wait for it, but not for ever."""
    return b"yes" if event.wait(PATIENCE_S) else b"no"


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Let a thread write or read, and end its request when the view is released."""
    _, kind, *rest = environ["PATH_INFO"].split("/")
    write = start_response("200 OK", [])
    if kind == "write":
        threading.Thread(target=note, args=(lambda: write_parts(write, int(rest[0])),)).start()
    elif kind == "read":
        threading.Thread(target=note, args=(environ["wsgi.input"].read,)).start()
    elif kind == "written":
        return [wait(WRITTEN)]
    elif kind == "ended":
        return ["; ".join(outcome).encode()] if wait(ENDED) == b"yes" else [b"it still waits"]
    elif kind == "release":
        RELEASED.set()
        return [b"released"]
    else:
        return [b"hello"]
    wait(RELEASED)
    # Its end does not wait until the client has read what the thread has written.
    return environ["wsgi.file_wrapper"](open(__file__, "rb"))  # type: ignore[no-any-return]
