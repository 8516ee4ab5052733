"""The WSGI application."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from acts import Act, act, failure


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Respond."""
    query = environ["QUERY_STRING"].encode("latin-1")
    content = environ["wsgi.input"].read()
    host = environ.get("HTTP_HOST", "")
    said = act(environ["REQUEST_METHOD"], environ["PATH_INFO"], query, content, host)
    if said.fails == "before":
        raise failure()
    start_response(str(said.status), list(said.fields))
    return parts(said) if said.parts else [said.content]


def parts(act: Act) -> Iterator[bytes]:
    """Yield the parts."""
    yield from act.parts
    if act.fails == "inside":
        raise failure()
