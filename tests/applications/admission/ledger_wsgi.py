"""A WSGI application that writes down which requests it begins and finishes."""

import os
import time

LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def app(environ, start_response):
    """Respond after a moment."""
    name = environ["PATH_INFO"]
    os.write(LEDGER, f"begun {name}\n".encode())
    time.sleep(0.01)  # what the view does, not a wait for something
    start_response("200 OK", [("Content-Length", "2")])
    os.write(LEDGER, f"finished {name}\n".encode())
    return [b"ok"]
