"""A native application whose generators keep their thread after each part."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from until import keep, let_go

from bolide import App, HTTPError, Request

app = App()


@app.get("/plain")
def plain(request: Request) -> Iterator[str]:
    """Stream from a plain generator."""
    way, path = (request.query["way"], request.query["path"])

    def parts() -> Iterator[str]:
        for content in ("one", "two"):
            yield content
            let_go(way, path)

    return parts()


@app.get("/first")
async def first(request: Request) -> AsyncIterator[str]:
    """Stream from an asynchronous generator, at once."""
    return two(request)


@app.get("/later")
async def later(request: Request) -> AsyncIterator[str]:
    """Stream from an asynchronous generator, after a suspension."""
    await asyncio.sleep(0)
    return two(request)


@app.get("/keeps")
def keeps(request: Request) -> str:
    """Keep the thread before the response."""
    keep(request.query["way"], request.query["path"])
    return "kept"


@app.get("/async-keeps")
async def async_keeps(request: Request) -> str:
    """As `keeps`, in a coroutine."""
    return keeps(request)


@app.get("/error-keeps")
async def error_keeps(request: Request) -> str:
    """As `keeps`, in what responds to an error."""
    raise HTTPError(418, "kept")


@app.error_handler(418)
def teapot(request: Request, error: HTTPError) -> str:
    """Keep the thread before the response to an error."""
    return keeps(request)


@app.get("/")
def quick(request: Request) -> str:
    """Respond at once."""
    return "quick"


async def two(request: Request) -> AsyncIterator[str]:
    """Yield two parts."""
    for content in ("one", "two"):
        yield content
        let_go(request.query["way"], request.query["path"])
