"""The content as an RSGI application, Granian's own interface."""

from content import CONTENT, NOT_FOUND, TARGET

HEADERS = [("content-type", "text/plain")]


async def app(scope, protocol):
    """Send the content."""
    if scope.path == TARGET:
        protocol.response_bytes(200, HEADERS, CONTENT)
    else:
        protocol.response_bytes(404, HEADERS, NOT_FOUND)
