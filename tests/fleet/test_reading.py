"""How much memory a message of Dask may take, from those that have no secret."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.fleet import wire
from fleet.conftest import Processes, addresses, asked

distributed = pytest.importorskip("distributed")
msgpack = pytest.importorskip("msgpack")

from bolide.fleet import reading  # noqa: E402 - it needs Dask

MIB = 1 << 20


class Stream:
    """What Dask reads from: it has `octets`, and notes how many it was asked for."""

    def __init__(self, octets: bytes = b"") -> None:
        self._octets = octets
        self.asked: list[int] = []

    async def read_bytes(self, count: int) -> bytes:
        self.asked.append(count)
        return self._octets[:count]


def test_what_is_announced_is_bounded() -> None:
    stream = Stream(b"abc")
    assert asyncio.run(reading._read(stream, 3)) == b"abc"
    assert asyncio.run(reading._read(stream, 0)) == b""
    with pytest.raises(distributed.comm.CommClosedError, match="more than 128 MiB"):
        asyncio.run(reading._read(stream, 128 * MIB + 1))
    assert stream.asked == [3]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 128 * MIB], "more than 128 MiB"),
        ([64 * MIB] * 3, "more than 128 MiB"),
        ([0] * 10_001, "more than 10000 parts"),
    ],
)
def test_the_parts_of_a_message_are_bounded_together(lengths: list[int], message: str) -> None:
    octets = struct.pack(f"{len(lengths) + 1}Q", len(lengths), *lengths)
    with pytest.raises(distributed.comm.CommClosedError, match=message):
        reading._unpacked(memoryview(octets), partial=True)


def test_the_parts_of_a_message() -> None:
    octets = struct.pack("4Q", 3, 2, 1, 5) + b"abc"
    assert reading._unpacked(memoryview(octets), partial=True) == ([b"ab", b"c"], [5])


@pytest.mark.parametrize(
    "octets",
    [
        b"\xdd" + struct.pack(">I", 10 * MIB) + b"\x80" * (10 * MIB),  # maps
        b"\x9b" + (b"\xdc" + struct.pack(">H", 9_999) + b"\x90" * 9_999) * 11,  # lists in lists
        b"\xdf" + struct.pack(">I", 10_001) + b"\xa1a\xc0" * 10_001,
    ],
    ids=["maps", "lists", "map"],
)
def test_the_values_of_a_message_are_bounded(octets: bytes) -> None:
    with pytest.raises(ValueError, match="exceeds max_|more than 100000 values"):
        reading._loaded(octets, use_list=False, strict_map_key=False)


def test_parts_that_are_read_again_and_again_are_bounded_together() -> None:
    part = msgpack.dumps([None] * 9_000)

    def again(found: dict[str, Any]) -> Any:
        return reading._loaded(part)

    assert reading._loaded(msgpack.dumps([{}] * 10), object_hook=again) == [[None] * 9_000] * 10
    with pytest.raises(ValueError, match="more than 100000 values"):
        reading._loaded(msgpack.dumps([{}] * 12), object_hook=again)
    assert reading._loaded(part) == [None] * 9_000


def test_values_are_as_dask_wants_them() -> None:
    message = {"op": "bolide", "list": [1, [2, {}]], "message": b"x" * 9}
    found = reading._loaded(msgpack.dumps(message), use_list=False, object_hook=lambda it: it)
    assert found == message | {"list": (1, (2, {}))}
    assert reading._loaded(msgpack.dumps([])) == []


@pytest.fixture
def agent(processes: Processes, tmp_path: Path) -> str:
    """Return the address of an agent with a secret."""
    (tmp_path / "secret").write_text("a secret of this test")
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a", "--secret-file", str(tmp_path / "secret"))
    [address] = asyncio.run(addresses(scheduler))
    return address


def framed(*parts: bytes) -> bytes:
    """Return a message of Dask."""
    lengths = struct.pack(f"{len(parts) + 1}Q", len(parts), *map(len, parts))
    octets = lengths + b"".join(parts)
    return struct.pack("Q", len(octets)) + octets


@contextlib.contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    """Connect as Dask does, and read the agent's first message."""
    host, _, port = address.partition("://")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        [length] = struct.unpack("Q", client.recv(8, socket.MSG_WAITALL))
        client.recv(length, socket.MSG_WAITALL)
        yield client


def peak_mib(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [found] = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(found) // 1024


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_without_the_secret_nobody_takes_memory_of_an_agent(
    agent: str, processes: Processes
) -> None:
    pid = processes.started[-1].pid
    before = peak_mib(pid)
    with connected(agent) as client:
        client.sendall(struct.pack("Q", 2 << 30))
        assert client.recv(1) == b""

    handshake = msgpack.dumps({"compression": None, "python": (3, 11, 0), "pickle-protocol": 5})
    kind = {"pickled-obj": b"x", "num-sub-frames": 1, "split-num-sub-frames": (1,)}
    header = msgpack.dumps(kind | {"compression": ("zlib",)})
    message = msgpack.dumps({"op": "bolide", "message": {"__Pickled__": 1}})
    bomb = zlib.compress(bytes(300 * MIB), 9)
    maps = b"\xdd" + struct.pack(">I", 32 * MIB) + b"\x80" * (32 * MIB)
    again = msgpack.dumps([{"__Serialized__": 1}] * 1_000)
    part = msgpack.dumps({"num-sub-frames": 0, "x": [None] * 9_000})
    for parts in ((message, header, bomb), (maps,), (again, part)):
        with connected(agent) as client:
            client.sendall(framed(handshake) + framed(*parts))
            client.recv(1)  # a report of Dask's, or the end

    assert isinstance(
        asyncio.run(asked(agent, op="bolide", message=wire.encode(wire.Hello()))), bytes
    )
    assert peak_mib(pid) < before + 100
