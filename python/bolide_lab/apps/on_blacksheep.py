"""The content from BlackSheep, an ASGI framework."""

from blacksheep import Application, Content, Response
from content import CONTENT, TARGET

app = Application()


@app.router.get(TARGET)
async def hello():
    """Return the content."""
    return Response(200, content=Content(b"text/plain", CONTENT))
