"""A WSGI application with a view that waits."""

import sys
import threading

gate = threading.Event()


def app(environ, start_response):
    """Wait, or let another call go on."""
    if environ["PATH_INFO"] == "/open":
        gate.set()
    else:
        gate.wait()
        print("the view has ended", file=sys.stderr, flush=True)
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
