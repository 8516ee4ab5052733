"""A native application whose generators keep their thread behind each part."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from until import let_go

from bolide import App, Request

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
    """Stream from an asynchronous generator, behind a suspension."""
    await asyncio.sleep(0)
    return two(request)


async def two(request: Request) -> AsyncIterator[str]:
    """Give two parts."""
    for content in ("one", "two"):
        yield content
        let_go(request.query["way"], request.query["path"])
