"""How much memory a message may take that Dask reads: no more than was sent, and within a bound.

Everybody who reaches a port may send one, and the secret is checked when it has been read. Dask
allocates what eight octets announce, and decompresses a message to whatever size that has.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

tcp: Any = importlib.import_module("distributed.comm.tcp")
compression: Any = importlib.import_module("distributed.protocol.compression")
utils: Any = importlib.import_module("distributed.protocol.utils")

MESSAGE_BYTES_MAX = 128 << 20
"""An order has at most 64 MiB of content, which is a third longer in a message."""
PARTS_MAX = 10_000
"""Each takes more memory than the octets that announce it; ours have one or two."""
UNCOMPRESSED = (None, False)


def bound() -> None:
    """Bound what Dask reads in this process, whose messages are not compressed."""
    tcp.read_bytes_rw = _read
    tcp.unpack_frames = _unpacked
    for name in set(compression.compressions) - set(UNCOMPRESSED):
        del compression.compressions[name]


async def _read(stream: Any, count: int) -> memoryview:
    """Read octets into memory that grows with what arrives.

    Raises:
        CommClosedError: they are too many. Dask closes the connection then.
    """
    _refuse_long(count)
    return memoryview(await stream.read_bytes(count) if count else b"")


def _unpacked(octets: memoryview, *, partial: bool) -> tuple[list[memoryview], list[int]]:
    """Divide the beginning of a message; also return the lengths of the parts that follow.

    Raises:
        CommClosedError: they are too long, or too many.
    """
    if int.from_bytes(octets[:8], sys.byteorder) > PARTS_MAX:
        raise tcp.CommClosedError(f"a message has more than {PARTS_MAX} parts")
    frames, lengths = utils.unpack_frames(octets, partial=partial)
    _refuse_long(len(octets) + sum(lengths))
    return frames, lengths


def _refuse_long(count: int) -> None:
    if count > MESSAGE_BYTES_MAX:
        raise tcp.CommClosedError(f"a message has more than {MESSAGE_BYTES_MAX >> 20} MiB")
