"""Time an application by itself: `application_cost.py MODULE:ATTRIBUTE INTERFACE SECONDS`.

The application is called again and again in one thread with what a server would give it for the
benches' request, and with a `send` or `start_response` that does nothing. Prints one JSON object:
the processor time per call in microseconds, the median of batches.
"""

import asyncio
import importlib
import io
import json
import sys
from statistics import median
from time import process_time
from typing import Any

CALLS_PER_BATCH = 500

HTTP_SCOPE: dict[str, Any] = {
    "type": "http",
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "root_path": "",
    "client": ("127.0.0.1", 50000),
    "server": ("127.0.0.1", 8000),
}
ENVIRON: dict[str, Any] = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "PATH_INFO": "/",
    "QUERY_STRING": "",
    "SERVER_NAME": "127.0.0.1",
    "SERVER_PORT": "8000",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": "127.0.0.1",
    "HTTP_HOST": "127.0.0.1:8000",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": False,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
}


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: Any) -> None:
    pass


def _start_response(status: str, fields: Any, exc_info: Any = None) -> Any:
    return None


async def _asgi_batch(app: Any) -> float:
    begin = process_time()
    for _ in range(CALLS_PER_BATCH):
        headers = [(b"host", b"127.0.0.1:8000")]
        versions = {"version": "3.0", "spec_version": "2.3"}
        await app({**HTTP_SCOPE, "asgi": versions, "headers": headers}, _receive, _send)
    return process_time() - begin


def _wsgi_batch(app: Any) -> float:
    begin = process_time()
    for _ in range(CALLS_PER_BATCH):
        answer = app({**ENVIRON, "wsgi.input": io.BytesIO()}, _start_response)
        for _part in answer:
            pass
        if hasattr(answer, "close"):
            answer.close()
    return process_time() - begin


def main() -> int:
    """Call for some seconds of processor time, after as long a warm-up as one batch."""
    target, interface, seconds = sys.argv[1:]
    module, _, attribute = target.partition(":")
    app = getattr(importlib.import_module(module), attribute)
    batches = []
    end = process_time() + float(seconds)
    with asyncio.Runner() as runner:
        while not batches or process_time() < end:
            if interface == "asgi":
                batches.append(runner.run(_asgi_batch(app)))
            else:
                batches.append(_wsgi_batch(app))
    each = median(batches[1:] or batches) / CALLS_PER_BATCH
    print(json.dumps({"application_us": each * 1e6}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
