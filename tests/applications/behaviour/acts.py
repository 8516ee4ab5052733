"""The response to a request, whatever interface the application speaks.

The applications beside this file do what `act` says, each in the way of its interface.
"""

from __future__ import annotations

from dataclasses import dataclass

TEXT = ("content-type", "text/plain; charset=utf-8")
BYTES = ("content-type", "application/octet-stream")


@dataclass(frozen=True)
class Act:
    """A response: whole, or in parts if there are any."""

    content: bytes = b""
    status: int = 200
    fields: tuple[tuple[str, str], ...] = (TEXT,)
    parts: tuple[bytes, ...] = ()
    fails: str = ""
    """Where the application raises: "before" its response or "inside" it."""


ACTS = {
    "/": Act(b"hello"),
    "/empty": Act(),
    "/large": Act(b"0123456789abcdef" * 65536, fields=(BYTES,)),
    "/fields": Act(b"x", fields=(TEXT, ("x-a", "1"), ("x-b", ""), ("x-a", "2, 3"))),
    "/cookies": Act(b"x", fields=(TEXT, ("set-cookie", "a=1"), ("set-cookie", "b=2; path=/"))),
    "/own": Act(b"x", fields=(TEXT, ("date", "Thu, 01 Jan 1970 00:00:00 GMT"), ("server", "own"))),
    "/created": Act(b"made", 201, (TEXT, ("location", "/made"))),
    "/no-content": Act(status=204, fields=()),
    "/not-modified": Act(status=304, fields=(("etag", '"1"'),)),
    "/teapot": Act(b"short and stout", 418),
    "/unavailable": Act(b"later", 503, (TEXT, ("retry-after", "1"))),
    "/parts": Act(parts=(b"one", b"two", b"three"), fields=(BYTES,)),
    "/part": Act(parts=(b"one",), fields=(BYTES,)),
    "/large-parts": Act(parts=(b"x" * 50_000,) * 20, fields=(BYTES,)),
    "/empty-parts": Act(parts=(b"", b"one", b"", b"two", b""), fields=(BYTES,)),
    "/created-parts": Act(parts=(b"ma", b"de"), status=201, fields=(BYTES, ("x-a", "1"))),
    "/fails": Act(fails="before"),
    "/fails-inside": Act(parts=(b"one", b"two"), fields=(BYTES,), fails="inside"),
}
NOT_FOUND = Act(b"there is no such thing", 404)


def act(method: str, path: str, query: bytes, content: bytes, host: str) -> Act:
    """Return the response to a request; `host` is its Host field."""
    if path == "/host":
        return Act(host.encode())
    if path == "/echo":
        return Act(content, fields=(BYTES,))
    if path == "/described":
        described = f"{method} {path} {query.decode('latin-1')} {len(content)}"
        return Act(described.encode())
    return ACTS.get(path, NOT_FOUND)


def failure() -> RuntimeError:
    """Return what an application raises that fails."""
    return RuntimeError("on purpose")
