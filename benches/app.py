"""The application that the benches measure."""

from typing import Any

from bolide import App

app = App()


@app.get("/")
def hello(request: Any) -> str:
    """Answer with 13 bytes from a plain function."""
    return "Hello, World!"


@app.get("/async")
async def hello_async(request: Any) -> str:
    """Answer with the same bytes from a coroutine that never suspends."""
    return "Hello, World!"


@app.get("/users/{id:int}/posts/{slug}")
def post(request: Any, id: int, slug: str) -> dict[str, object]:
    """Answer with a JSON object made of both path parameters."""
    return {"user": id, "slug": slug, "title": "A post", "public": True}
