"""How much memory clients may make a worker hold: `memory_max`, or what follows from the machine.

It only says how much there is; the Rust core counts what is held.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bolide.config.settings import Settings

PARTS = 2
"""One of so many parts is for clients. The rest is for applications and the interpreter, for what
the allocator and the kernel need beside it, and for the old workers in a reload."""
REDIRECTED_SHARE, REDIRECTED_BYTES_MAX = 8, 16 << 20
"""One of so many parts of that, up to so much, is for clients that are only sent to https."""
OPTION = "memory_max"
V1_FILES: tuple[str, ...] = ("memory.limit_in_bytes",)
V2_FILES: tuple[str, ...] = ("memory.max", "memory.high")


@dataclass(frozen=True, slots=True)
class Limit:
    """Memory that there is."""

    size: int
    """Bytes."""
    of: str
    """What allows so much."""
    is_shared: bool = True
    """All workers have it together."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What clients may make one worker hold."""

    size: int
    """Bytes; 0 for any number."""
    origin: str


def budget(settings: Settings, root: Path = Path("/")) -> Budget:
    """Return what clients may make a worker hold; files are read below `root`."""
    if isinstance(settings.memory_max, int):
        return Budget(settings.memory_max, OPTION)
    found = list(limits(root))
    if not found:
        return Budget(0, "nothing is known of the memory of this machine")
    size, least = min(((share(each, settings.workers), each) for each in found), key=_size)
    among = f", for {settings.workers} workers" if least.is_shared and settings.workers > 1 else ""
    return Budget(size, f"half of {least.of} {in_units(least.size)}{among}")


def redirected_max(settings: Settings) -> int:
    """Return how many bytes clients may make a worker hold that are only sent to https."""
    size = budget(settings).size
    part = size // REDIRECTED_SHARE if size else REDIRECTED_BYTES_MAX
    return max(1, min(part, REDIRECTED_BYTES_MAX))


def served_max(settings: Settings) -> int:
    """Return how many bytes the application's clients may make a worker hold; 0 for any number."""
    size = budget(settings).size
    if not size or not settings.redirect_to_https:
        return size
    return max(1, size - redirected_max(settings))


def _size(share_and_limit: tuple[int, Limit]) -> int:
    return share_and_limit[0]


def share(limit: Limit, workers: int) -> int:
    """Return the part of it that is for the clients of one of the workers."""
    return max(1, limit.size // PARTS // (workers if limit.is_shared else 1))


def limits(root: Path = Path("/")) -> Iterator[Limit]:
    """Find everything that limits the memory of this process."""
    if total := _total(root):
        yield Limit(total, "this machine's")
    if found := list(_cgroup(root)):
        yield Limit(min(found), "the cgroup's")
    for kind, name in ((resource.RLIMIT_AS, "RLIMIT_AS"), (resource.RLIMIT_DATA, "RLIMIT_DATA")):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield Limit(soft, f"the process's {name}", is_shared=False)


def _total(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemTotal":
            return int(amount.split()[0]) * 1024
    return 0


def _cgroup(root: Path) -> Iterator[int]:
    """Find the limits of the cgroup of this process and of those around it, of both versions."""
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            base, names = mounted, V2_FILES
        elif "memory" in controllers.split(","):
            base, names = mounted / "memory", V1_FILES
        else:
            continue
        # In a container the path may be that outside, and its own group the root.
        folder = base / path.lstrip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(base):
                amounts = (_read(each / name).strip() for name in names)
                yield from (int(amount) for amount in amounts if amount.isdecimal())


def _read(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:  # another system, version or permission: nothing is known of it
        return ""


def described(settings: Settings, connection_bytes_max: int) -> str:
    """Return the line that says how much memory clients may use, together and each."""
    most = budget(settings)
    limit = f"{in_units(most.size)} per worker" if most.size else "none"
    origin = most.origin if most.origin == OPTION else f"{most.origin}; {OPTION}"
    one = f"at most {in_units(connection_bytes_max)} per connection"
    return f"memory limit: {limit} ({origin}), {one}"


def shortfall(settings: Settings) -> str:
    """Return what is to be said if the budget does not fit the other settings or the machine."""
    most, content = budget(settings), settings.core["body_bytes_max"]
    if 0 < most.size < 2 * content:
        return (
            f"memory_max is {in_units(most.size)}, which is little for content of "
            f"--body-bytes-max {content}: such requests get 503; raise it or lower that"
        )
    shared = [each for each in limits() if each.is_shared]
    least = min(shared, key=lambda each: each.size, default=None)
    if least is not None and most.size * settings.workers > least.size:
        return (
            f"--memory-max {in_units(most.size)} for each of {settings.workers} workers is more "
            f"than {least.of} {in_units(least.size)}; lower it"
        )
    return ""


def in_units(size: int) -> str:
    """Format a number of bytes with a unit."""
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.3g} {unit}"
