"""The application that the benches measure."""

import itertools
from typing import Any

from bolide import App, Response

app = App()
NUMBERS = itertools.count()


@app.get("/")
def hello(request: Any) -> str:
    """Respond with 13 bytes from a plain function."""
    return "Hello, World!"


@app.get("/numbered")
def numbered(request: Any) -> Response:
    """Respond with the same bytes and a field that is another each time."""
    return Response(text="Hello, World!", headers={"X-Number": str(next(NUMBERS))})


@app.get("/async")
async def hello_async(request: Any) -> str:
    """Respond with the same bytes from a coroutine that never suspends."""
    return "Hello, World!"


@app.get("/users/{id:int}/posts/{slug}")
def post(request: Any, id: int, slug: str) -> dict[str, object]:
    """Respond with a JSON object made of both path parameters."""
    return {"user": id, "slug": slug, "title": "A post", "public": True}
