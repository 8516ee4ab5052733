"""The ASGI application: the path says what it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from state import PART, Pulse, block_thread, fork, seen

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

pulse = Pulse()
released = asyncio.Event()


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Serve lifespan and http."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    kind, *arguments = scope["path"].removeprefix("/").split("/")
    await KINDS[kind](receive, send, *arguments)


async def lifespan(receive: Receive, send: Send) -> None:
    """Start the timer; agree to start and to end."""
    pulse.beat()
    for _ in range(2):
        message = await receive()
        await send({"type": message["type"] + ".complete"})


async def respond(send: Send, content: bytes) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": content})


async def hello(receive: Receive, send: Send) -> None:
    """Respond at once."""
    await respond(send, b"hello")


async def early(receive: Receive, send: Send) -> None:
    """Suspend, and respond without reading the content."""
    await asyncio.sleep(0)
    await respond(send, b"early")


async def held(receive: Receive, send: Send, size: str) -> None:
    """Wait for a release, and respond with so many bytes without reading the content."""
    seen["held"] += 1
    await released.wait()
    await respond(send, b"h" * int(size))


async def watch(receive: Receive, send: Send) -> None:
    """Wait for a release or the client's end; respond with which of them came."""
    await receive()
    end = asyncio.ensure_future(receive())
    let_go = asyncio.ensure_future(released.wait())
    seen["held"] += 1
    await asyncio.wait({end, let_go}, return_when=asyncio.FIRST_COMPLETED)
    await respond(send, b"gone" if end.done() else b"released")
    end.cancel()
    let_go.cancel()


async def release(receive: Receive, send: Send) -> None:
    """Let those go on that wait."""
    global released
    released.set()
    released = asyncio.Event()
    await respond(send, b"released")


async def show(receive: Receive, send: Send) -> None:
    await respond(send, json.dumps(seen).encode())


async def gap(receive: Receive, send: Send) -> None:
    """Report how many calls blocked the event loop between two beats of its timer, at most."""
    await respond(send, str(pulse.take_gap_max()).encode())


async def block(receive: Receive, send: Send, milliseconds: str, number: str) -> None:
    """Block the worker, and respond with the number."""
    block_thread(int(milliseconds))
    await respond(send, number.encode())


async def wait(receive: Receive, send: Send, milliseconds: str) -> None:
    """Respond after a while."""
    await asyncio.sleep(int(milliseconds) / 1000)
    await respond(send, b"waited")


async def big(receive: Receive, send: Send, size: str) -> None:
    """Respond with so many bytes."""
    await respond(send, b"b" * int(size))


async def parts(receive: Receive, send: Send, count: str) -> None:
    """Stream parts."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(int(count)):
        await send({"type": "http.response.body", "body": PART, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def part_held(receive: Receive, send: Send) -> None:
    """Stream a part, and wait for a release before the next."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": PART, "more_body": True})
    seen["held"] += 1
    await released.wait()
    await send({"type": "http.response.body", "body": PART})


async def read(receive: Receive, send: Send) -> None:
    """Respond with the size of the content."""
    await respond(send, b"%d" % await content_bytes(receive))


async def read_big(receive: Receive, send: Send, size: str) -> None:
    """Read the content, and respond with so many bytes."""
    await content_bytes(receive)
    await big(receive, send, size)


async def content_bytes(receive: Receive) -> int:
    """Read the content; return its size."""
    size, is_more = 0, True
    while is_more:
        message = await receive()
        size += len(message.get("body", b""))
        is_more = message.get("more_body", False)
    return size


async def fork_child(receive: Receive, send: Send) -> None:
    """Fork a process, and respond with its id."""
    await respond(send, str(fork()).encode())


KINDS: dict[str, Callable[..., Awaitable[None]]] = {
    "hello": hello,
    "early": early,
    "held": held,
    "watch": watch,
    "release": release,
    "seen": show,
    "gap": gap,
    "block": block,
    "wait": wait,
    "big": big,
    "parts": parts,
    "part-held": part_held,
    "read": read,
    "read-big": read_big,
    "fork": fork_child,
}
