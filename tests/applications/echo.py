"""Responds with what it was asked: method, target, authority and content, as JSON.

No route takes every method; what the router rejects with 404 or 405 gets a response like
the rest, so that a test of the protocol sees nothing of the router.
"""

from bolide import App, HTTPError, Request, Response

app = App()
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


def echo(request: Request) -> Response:
    """Respond with the request."""
    target = request.raw_path + (b"?" + request.query_string if request.query_string else b"")
    return Response(
        json={
            "method": request.method,
            "target": target.decode("latin-1"),
            "authority": request.host,
            "content": request.read().decode("latin-1"),
        }
    )


@app.route("/", methods=METHODS)
def root(request: Request) -> Response:
    """Respond for the root."""
    return echo(request)


@app.route("/{rest:path}", methods=METHODS)
def anywhere(request: Request, rest: str) -> Response:
    """Respond for every other path."""
    return echo(request)


@app.error_handler(404)
def no_route(request: Request, error: HTTPError) -> Response:
    """Respond where no route is."""
    return echo(request)


@app.error_handler(405)
def other_method(request: Request, error: HTTPError) -> Response:
    """Respond for a method that has no route."""
    return echo(request)
