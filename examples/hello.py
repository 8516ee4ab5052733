"""A small application that shows what a handler can return.

Run it:  bolide serve examples/hello.py:app
Try it:  curl http://127.0.0.1:8000/users/42
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from bolide import App, Request

app = App()


@app.get("/")
def hello(request: Request) -> str:
    return "Hello, World!"


@app.get("/users/{id:int}")
async def user(request: Request, id: int) -> dict[str, int]:
    return {"id": id}


@app.post("/sum")
async def add(request: Request) -> Any:
    """Add the numbers of a JSON list: curl --json '[1, 2, 3]' http://127.0.0.1:8000/sum."""
    numbers = await request.json()
    if not isinstance(numbers, list) or not all(isinstance(n, int | float) for n in numbers):
        return {"error": "send a list of numbers"}, 422
    return {"sum": sum(numbers)}


@app.get("/countdown")
async def countdown(request: Request) -> AsyncIterator[str]:
    """Send a line every second, each as soon as it is yielded: curl -N ...:8000/countdown."""
    for number in range(3, 0, -1):
        yield f"{number}\n"
        await asyncio.sleep(1)
    yield "lift-off\n"
