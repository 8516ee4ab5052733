"""Raw ASGI applications that do input and output of their own before they respond.

The variable ECHO_PORT names the port of a server that sends back what it is sent (`echo.py`).
"""

import asyncio
import os
from typing import Any

from hello_asgi import HELLO_START, lifespan

QUESTION = b"x" * 64
PARALLEL = 10

idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def _hello(send: Any) -> None:
    await send(HELLO_START)
    await send({"type": "http.response.body", "body": b"Hello, World!"})


async def _ask() -> bytes:
    """Ask the echo server on a connection that is kept open."""
    if idle:
        reader, writer = idle.pop()
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["ECHO_PORT"]))
    writer.write(QUESTION)
    echoed = await reader.readexactly(len(QUESTION))
    idle.append((reader, writer))
    return echoed


async def turn(scope: Any, receive: Any, send: Any) -> None:
    """Respond after a turn of the loop."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await asyncio.sleep(0)
    await _hello(send)


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Respond when one question has a response."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await _ask()
    await _hello(send)


async def gather(scope: Any, receive: Any, send: Any) -> None:
    """Respond when ten questions, asked at the same time, have responses."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await asyncio.gather(*(_ask() for _ in range(PARALLEL)))
    await _hello(send)


async def thread(scope: Any, receive: Any, send: Any) -> None:
    """Respond when another thread has called a function."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    await asyncio.to_thread(len, QUESTION)
    await _hello(send)
