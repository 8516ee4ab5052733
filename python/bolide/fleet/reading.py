"""How much memory a message may take that Dask reads: about what was sent, and within a bound.

Everybody who reaches a port may send one, and the secret is checked when it has been read. Dask
allocates what eight octets announce, decompresses a message to whatever size that has, and makes an
object of each octet if it says so.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bolide.errors import ConfigError

core: Any = importlib.import_module("distributed.protocol.core")
msgpack: Any = importlib.import_module("msgpack")
tcp: Any = importlib.import_module("distributed.comm.tcp")
compression: Any = importlib.import_module("distributed.protocol.compression")
utils: Any = importlib.import_module("distributed.protocol.utils")

MESSAGE_BYTES_MAX = 128 << 20
"""An order has at most 64 MiB of content, which is a third longer in a message."""
PARTS_MAX = 10_000
"""Each takes more memory than the octets that announce it; ours have one or two."""
VALUES_MAX = 100_000
"""Far more than the identity of a scheduler with all its agents has, and at most some MiB."""
ITEMS_MAX = 10_000
"""Of one list or map: its memory is taken before the values have come."""
UNCOMPRESSED = (None, False)
REPLACED = ((tcp, "read_bytes_rw"), (tcp, "unpack_frames"), (core, "msgpack"))


def bound() -> None:
    """Bound what Dask reads in this process, whose messages are not compressed.

    Raises:
        ConfigError: this version of Dask reads in another way.
    """
    if not all(hasattr(module, name) for module, name in REPLACED):
        version = importlib.import_module("distributed").__version__
        raise ConfigError(
            f"what distributed {version} reads cannot be bounded; install one that Bolide knows: "
            "pip install 'bolide[fleet]'"
        )
    tcp.read_bytes_rw = _read
    tcp.unpack_frames = _unpacked
    core.msgpack = SimpleNamespace(**{**vars(msgpack), "loads": _loaded})
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


class _Budget(threading.local):
    """How many values a message may still have.

    Dask reads parts of a message while it reads the first one, as often as that says.
    """

    depth = 0
    left = 0

    def __enter__(self) -> None:
        if self.depth == 0:
            self.left = VALUES_MAX
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def take(self, count: int) -> None:
        """Count a list or a map with so many values.

        Raises:
            ValueError: they are too many.
        """
        self.left -= 1 + count
        if self.left < 0:
            raise ValueError(f"a message has more than {VALUES_MAX} values")


_budget = _Budget()


def _loaded(octets: Any, *, object_hook: Callable[[Any], Any] | None = None, **options: Any) -> Any:
    """Make objects of a part of a message, which is in the format of msgpack.

    Raises:
        ValueError: they are too many. Dask closes the connection then.
    """

    def of_map(found: dict[Any, Any]) -> Any:
        _budget.take(2 * len(found))
        return found if object_hook is None else object_hook(found)

    def of_list(found: Any) -> Any:
        _budget.take(len(found))
        return found

    bounds = {"max_array_len": ITEMS_MAX, "max_map_len": ITEMS_MAX}
    hooks = {"object_hook": of_map, "list_hook": of_list}
    with _budget:
        return msgpack.loads(octets, **options, **bounds, **hooks)


def _refuse_long(count: int) -> None:
    if count > MESSAGE_BYTES_MAX:
        raise tcp.CommClosedError(f"a message has more than {MESSAGE_BYTES_MAX >> 20} MiB")
