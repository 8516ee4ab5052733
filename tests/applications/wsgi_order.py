"""A view that takes its time and reports how many were called before it."""

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

calls = itertools.count()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Wait as many milliseconds as the path says."""
    number = next(calls)
    time.sleep(int(environ["PATH_INFO"].removeprefix("/")) / 1000)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % number]
