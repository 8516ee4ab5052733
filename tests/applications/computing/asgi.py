"""An ASGI application that keeps its thread between and after what it sends.

The query string is `WHAT,STAGE,WAY,PATH`.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from until import keep, let_go

SEEN: dict[str, Any] = {"background": 0}
WAITING: dict[str, Any] = {}
START = {"type": "http.response.start", "status": 200, "headers": []}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Do what the query string says."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    what, stage, way, path = (scope["query_string"].decode() or "seen,,,").split(",")
    if stage == "later":
        await asyncio.sleep(0)
    await KINDS[what](send, way, path)


async def lifespan(receive: Any, send: Any) -> None:
    """Agree to start and to end."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})


async def seen(send: Any, way: str, path: str) -> None:
    """Report what was seen."""
    await whole(send, json.dumps(SEEN).encode())


async def whole(send: Any, content: bytes) -> None:
    """Respond in one part."""
    await send(START)
    await send({"type": "http.response.body", "body": content})


async def part(send: Any, content: bytes, *, more: bool = True) -> None:
    """Send a part."""
    await send({"type": "http.response.body", "body": content, "more_body": more})


async def parts(send: Any, way: str, path: str) -> None:
    """Stream two parts, and keep the thread after each."""
    await send(START)
    for content in (b"one", b"two"):
        await part(send, content)
        let_go(way, path)
    await part(send, b"", more=False)


async def lengthy(send: Any, way: str, path: str) -> None:
    """As `parts`, with a length."""
    await send({**START, "headers": [(b"content-length", b"6")]})
    for content in (b"one", b"two"):
        await part(send, content)
        let_go(way, path)
    await part(send, b"", more=False)


async def short(send: Any, way: str, path: str) -> None:
    """Send less than was announced."""
    await send({**START, "headers": [(b"content-length", b"6")]})
    await part(send, b"one")
    let_go(way, path)
    await part(send, b"", more=False)


async def fails(send: Any, way: str, path: str) -> None:
    """Raise after a part."""
    await send(START)
    await part(send, b"one")
    let_go(way, path)
    raise RuntimeError("after a part")


async def keeps(send: Any, way: str, path: str) -> None:
    """Keep the thread before the response."""
    keep(way, path)
    await whole(send, b"kept")


async def waits(send: Any, way: str, path: str) -> None:
    """Keep the thread after the first part, then suspend."""
    await send(START)
    await part(send, b"one")
    let_go(way, path)
    await asyncio.sleep(0)
    await part(send, b"two")
    let_go(way, path)
    await part(send, b"", more=False)


async def background(send: Any, way: str, path: str) -> None:
    """Keep the thread after a whole response."""
    await whole(send, b"whole")
    let_go(way, path)
    SEEN["background"] += 1


async def ended(send: Any, way: str, path: str) -> None:
    """Keep the thread after a whole response that was sent in parts."""
    await send(START)
    await part(send, b"one")
    await part(send, b"two", more=False)
    let_go(way, path)
    SEEN["background"] += 1


async def hint(send: Any, way: str, path: str) -> None:
    """Keep the thread after an interim response."""
    await send({"type": "http.response.early_hint", "links": [b"</a>"]})
    let_go(way, path)
    await whole(send, b"hinted")


async def trailers(send: Any, way: str, path: str) -> None:
    """Keep the thread after a response with a trailer section."""
    await send({**START, "trailers": True})
    await part(send, b"one", more=False)
    await send({"type": "http.response.trailers", "headers": [(b"a", b"b")]})
    let_go(way, path)
    SEEN["background"] += 1


async def file(send: Any, way: str, path: str) -> None:
    """Keep the thread after a file."""
    await send(START)
    await send({"type": "http.response.pathsend", "path": __file__})
    let_go(way, path)
    SEEN["background"] += 1


async def long_file(send: Any, way: str, path: str) -> None:
    """Keep the thread after a file that takes several turns."""
    file = Path(f"{path}.long")
    file.write_bytes(b"." * 5_000_000)
    await send(START)
    await send({"type": "http.response.pathsend", "path": str(file)})
    let_go(way, path)
    SEEN["background"] += 1


async def thread(send: Any, way: str, path: str) -> None:
    """Send from a loop in another thread, and keep that thread after each part."""

    async def send_parts() -> None:
        for content in (b"one", b"two"):
            await part(send, content)
            let_go(way, path)

    await send(START)
    await asyncio.get_running_loop().run_in_executor(None, asyncio.run, send_parts())
    await part(send, b"", more=False)


async def discarded(send: Any, way: str, path: str) -> None:
    """Stream more than a buffer holds."""
    await send(START)
    for _ in range(5):
        await part(send, b"." * 20_000)
    await part(send, b"", more=False)
    SEEN["background"] += 1


async def another(send: Any, way: str, path: str) -> None:
    """Wait until another request sends the response."""
    WAITING["send"] = send
    WAITING["done"] = asyncio.Event()
    await WAITING["done"].wait()


async def sends(send: Any, way: str, path: str) -> None:
    """Send the response of another request, and keep the thread."""
    await send(START)
    await whole(WAITING["send"], b"another's")
    let_go(way, path)
    WAITING["done"].set()
    await part(send, b"own", more=False)


KINDS = {
    each.__name__: each
    for each in (
        *(seen, parts, lengthy, short, fails, keeps, waits, background, ended),
        *(hint, trailers, file, long_file, thread, discarded, another, sends),
    )
}
