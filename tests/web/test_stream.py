"""The sending of an async iterator's parts."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bolide.errors import ClientDisconnected
from bolide.web.stream import stream_async


class Recorder:
    """Stands for the core's stream: keeps what it is sent, or fails at the n-th part."""

    def __init__(self, fails_at: int = -1) -> None:
        self.parts: list[bytes] = []
        self._fails_at = fails_at

    async def send(self, data: bytes) -> None:
        if len(self.parts) == self._fails_at:
            raise ClientDisconnected
        self.parts.append(data)


class Source:
    """Async generators that record how they ended."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts
        self.is_closed = False

    async def iterate(self) -> AsyncIterator[Any]:
        try:
            for part in self._parts:
                yield part
        finally:
            self.is_closed = True


def send(source: Source, recorder: Any) -> None:
    asyncio.run(stream_async(recorder, source.iterate()))


def test_parts_are_sent_in_order_and_empty_ones_passed_over() -> None:
    recorder = Recorder()
    send(Source(b"a", "é", b"", "", bytearray(b"b"), memoryview(b"c")), recorder)
    assert recorder.parts == [b"a", b"\xc3\xa9", b"b", b"c"]
    assert all(type(part) is bytes for part in recorder.parts)


@pytest.mark.parametrize("part", [1, None, {"a": 1}, [b"a"]])
def test_other_parts_are_refused_and_the_iterator_closed(part: Any) -> None:
    recorder, source = Recorder(), Source(b"a", part, b"b")
    with pytest.raises(TypeError, match=f"bytes or str, not {type(part).__name__}"):
        send(source, recorder)
    assert recorder.parts == [b"a"]
    assert source.is_closed


def test_a_disconnection_closes_the_iterator() -> None:
    source = Source(b"a", b"b", b"c")
    with pytest.raises(ClientDisconnected):
        send(source, Recorder(fails_at=1))
    assert source.is_closed


def test_an_iterator_without_aclose_is_good_enough() -> None:
    class Countdown:
        left = 2

        def __aiter__(self) -> "Countdown":
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return str(self.left)

    recorder: Any = Recorder()
    asyncio.run(stream_async(recorder, Countdown()))
    assert recorder.parts == [b"1", b"0"]
