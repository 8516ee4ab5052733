"""An ASGI application that leaves its process almost no memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

PAGE_BYTES = resource.getpagesize()
PART = b"A" * 8000
"""As long as an allocation that checks how much memory is left."""
AFTER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
"""Looks like another response to a client that did not receive the head before it."""
kept: list[bytearray] = []


def exhaust() -> None:
    """Take what memory there is, but for a little."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    reserve = [bytearray(1 << 16) for _ in range(24)]
    for power in (20, 18, 16, 14):
        try:
            while True:
                kept.append(bytearray(1 << power))
        except MemoryError:
            pass
    reserve.clear()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Exhaust the memory, respond with a stream, the process id, or with a few bytes."""
    assert scope["type"] == "http"
    if scope["path"] == "/exhaust":
        exhaust()
    small = str(os.getpid()).encode() if scope["path"] == "/pid" else b"small"
    parts = [PART, AFTER, b""] if scope["path"] == "/stream" else [small]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for number, part in enumerate(parts, start=1):
        more = number < len(parts)
        await send({"type": "http.response.body", "body": part, "more_body": more})
