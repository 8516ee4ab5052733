"""A WSGI application that keeps its thread after each block."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from until import keep, let_go


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the query string says: `WHAT,WAY,PATH`."""
    what, way, path = (environ["QUERY_STRING"] or "quick,,").split(",")
    fields = [("Content-Length", "6")] if what.endswith("lengthy") else []
    write = start_response("200 OK", fields)
    if what in ("quick", "keeps"):
        if what == "keeps":
            keep(way, path)
        return [what.encode()]
    if what.startswith("closes"):
        return Closing(way, path, [] if what.endswith("empty") else [b"onetwo"])
    if what.startswith("blocks"):
        return blocks(way, path)
    for block in (b"one", b"two"):
        write(block)
        let_go(way, path)
    if what == "fails":
        raise RuntimeError("after a block")
    if what == "both":
        return blocks(way, path)
    return []


class Closing:
    """An iterable that works when it is closed."""

    def __init__(self, way: str, path: str, content: list[bytes]) -> None:
        self.way, self.path, self.content = way, path, content

    def __iter__(self) -> Iterator[bytes]:
        """Yield all of the content."""
        yield from self.content

    def close(self) -> None:
        """Keep the thread."""
        let_go(self.way, self.path)


def blocks(way: str, path: str) -> Iterator[bytes]:
    """Yield two blocks."""
    for block in (b"one", b"two"):
        yield block
        let_go(way, path)
