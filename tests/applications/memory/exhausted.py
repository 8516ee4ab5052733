"""An ASGI application that leaves its process almost no memory."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path
from typing import Any

PAGE_BYTES = resource.getpagesize()
PART = b"A" * 8000
"""As long as an allocation that checks how much memory is left."""
CLOCK_MONOTONIC_COARSE = 6
"""The server checks once per tick of this clock whether memory is limited."""
AFTER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
"""Looks like another response to a client that did not receive the head before it."""
kept: list[bytearray] = []
released = asyncio.Event()
counts = {"/begun": 0, "/ended": 0}


def exhaust() -> None:
    """Take what memory there is, but for a little."""
    # One block, which the system gets back: pieces could stay apart, in the allocator.
    reserve = [bytearray(24 << 16)]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    now = time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE)
    while time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE) == now:
        pass
    for power in (20, 18, 16, 14):
        try:
            while True:
                kept.append(bytearray(1 << power))
        except MemoryError:
            pass
    reserve.clear()


async def wait_for_the_end(receive: Any, send: Any) -> None:
    """Send the beginning of a response, suspend, and wait until the request is over."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": PART, "more_body": True})
    counts["/begun"] += 1
    await asyncio.sleep(0)
    assert (await receive())["type"] == "http.disconnect"
    counts["/ended"] += 1


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Exhaust the memory, respond with a stream, with what others did, or with a few bytes."""
    assert scope["type"] == "http"
    if scope["path"] == "/exhaust":
        exhaust()
    if scope["path"] == "/wait":
        return await wait_for_the_end(receive, send)
    if scope["path"] == "/hold":
        await released.wait()
    if scope["path"] == "/release":
        released.set()
    numbers = {"/pid": os.getpid(), **counts}
    small = str(numbers[scope["path"]]).encode() if scope["path"] in numbers else b"small"
    parts = [PART, AFTER, b""] if scope["path"] == "/stream" else [small]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for number, part in enumerate(parts, start=1):
        more = number < len(parts)
        await send({"type": "http.response.body", "body": part, "more_body": more})
