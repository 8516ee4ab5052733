"""What the application counts: how many requests of each kind it has begun and ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.soak.counts import Counts

COUNTS = Counts(Path(os.environ["LEDGER"]))
LEAKED: list[bytes] = []
LEAK_BYTES = int(os.environ.get("LEAK_BYTES", "0"))
"""A test of the soak itself lets each request leave so much."""
PART = bytes(range(256)) * 64


@contextmanager
def counted(query: dict[str, str]) -> Iterator[None]:
    """Count a request, and its end, however it ends."""
    COUNTS.add(f"{query['kind']} begun")
    if LEAK_BYTES:
        LEAKED.append(b"x" * LEAK_BYTES)
    try:
        yield
    finally:
        COUNTS.add(f"{query['kind']} ended")


async def count_tasks() -> None:
    """Count the tasks of the loop, again and again."""
    while True:
        COUNTS.set("tasks", len(asyncio.all_tasks()))
        await asyncio.sleep(0.5)


def reply(query: dict[str, str], octets: int | None = None) -> bytes:
    """Return what the client expects."""
    if octets is None:
        return query["id"].encode()
    COUNTS.add(f"{query['kind']} octets", octets)
    return f"{query['id']} {octets}".encode()


def parts(query: dict[str, str]) -> Iterator[bytes]:
    """Return the parts of a long response, which are counted as they are made."""
    left = int(query["size"])
    while left > 0:
        part = PART[:left]
        left -= len(part)
        COUNTS.add(f"{query['kind']} made", len(part))
        yield part
