"""The applications of the other interfaces, mounted on a native one without routes."""

from asgi import app as asgi_app
from asgi import later as asgi_later_app
from bolide import App
from wsgi import app as wsgi_app


def on(application: object) -> App:
    """Mount an application for all paths."""
    app = App()
    app.mount("/", application)
    return app


asgi, asgi_later, wsgi = on(asgi_app), on(asgi_later_app), on(wsgi_app)
