"""The other two applications below prefixes of a native one."""

from on_asgi import app as asgi_app
from on_wsgi import app as wsgi_app

import bolide

app = bolide.App()
app.mount("/asgi", asgi_app)
app.mount("/wsgi", wsgi_app)
