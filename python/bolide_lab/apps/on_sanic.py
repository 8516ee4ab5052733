"""The content from Sanic."""

from content import CONTENT, TARGET
from sanic import Sanic
from sanic.response import raw

app = Sanic("race", configure_logging=False)
app.config.ACCESS_LOG = False
app.config.KEEP_ALIVE_TIMEOUT = 600


@app.get(TARGET)
async def hello(request):
    """Return the content."""
    return raw(CONTENT, content_type="text/plain")
