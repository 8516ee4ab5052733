"""The content as a WSGI application."""

from content import CONTENT, NOT_FOUND, TARGET

FOUND = [("Content-Type", "text/plain"), ("Content-Length", str(len(CONTENT)))]
MISSING = [("Content-Type", "text/plain"), ("Content-Length", str(len(NOT_FOUND)))]


def app(environ, start_response):
    """Return the content."""
    if environ["PATH_INFO"] == TARGET:
        start_response("200 OK", FOUND)
        return [CONTENT]
    start_response("404 Not Found", MISSING)
    return [NOT_FOUND]


application = app
