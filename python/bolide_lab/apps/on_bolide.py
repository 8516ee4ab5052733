"""The content from Bolide's own framework, by four kinds of handlers: an application for each."""

import itertools

from content import CONTENT, TARGET

from bolide import App, Response

app, coroutine, numbered, parameters = App(), App(), App(), App()
TEXT = CONTENT.decode()
NUMBERS = itertools.count()


@app.get(TARGET)
def hello(request):
    """Return the content."""
    return TEXT


@coroutine.get(TARGET)
async def hello_async(request):
    """Return the content from a coroutine that never suspends."""
    return TEXT


@numbered.get(TARGET)
def hello_numbered(request):
    """Return the content with a field that differs in every response."""
    return Response(text=TEXT, headers={"X-Number": str(next(NUMBERS))})


@parameters.get("/users/{id:int}/posts/{slug}")
def post(request, id, slug):
    """Return a JSON object with both path parameters."""
    return {"user": id, "slug": slug, "title": "A post", "public": True}
