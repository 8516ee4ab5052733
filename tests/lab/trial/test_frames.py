"""HTTP/2 as a proof reads it: statuses in header blocks, and frames that must not arrive."""

from __future__ import annotations

import io

import pytest

from bolide.lab.trial.frames import Frames, WrongFrameError, request, status_of

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def read(*arriving: bytes, streams: int = 1) -> tuple[int, bytes, bytes]:
    """Return the first stream's status and content, and what was sent."""
    source, sent = io.BytesIO(SETTINGS + b"".join(arriving)), bytearray()
    found = Frames(source.read, sent.extend)
    for number in range(streams):
        found.open(1 + 2 * number)
    response = found.wait(1)
    return response.status, bytes(response.content), bytes(sent)


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"\x88", 200),
        (b"\x8d\x0f\x0d\x0213", 404),
        (b"\x20\x88", 200),
        (b"\x08\x03200", 200),
        (b"\x48\x03201", 201),
        (b"\x18\x03599", 599),
        (b"\x08\x82\x10\x01", 200),  # RFC 7541 appendix C.6.1: 302 is 6402
        (b"\x48\x82\x64\x02", 302),
    ],
)
def test_the_status_of_a_block(block: bytes, status: int) -> None:
    assert status_of(block) == status


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x20",
        b"\x82",
        b"\xbe",
        b"\x3f\xe1\x1f\x88",
        b"\x08\x0220",
        b"\x08\x03abc",
        b"\x08\x81\xff",
    ],
)
def test_a_block_without_a_status(block: bytes) -> None:
    with pytest.raises(WrongFrameError):
        status_of(block)


def test_a_response_in_many_frames() -> None:
    padded = frame(0, 8, 1, b"\x02lo\0\0")
    found = read(
        frame(6, 0, 0, b"12345678"),
        frame(1, 0, 1, b"\x88\x0f"),
        frame(9, 4, 1, b"\x0d\x015"),
        frame(8, 0, 0, b"\0\0\0\1"),
        frame(0, 0, 1, b"Hel"),
        padded,
        frame(1, 5, 1, b"\x00\x01a\x01b"),
    )
    acknowledged = frame(4, 1, 0, b"") + frame(6, 1, 0, b"12345678")
    assert found == (200, b"Hello", acknowledged)


def test_a_block_that_continues_after_the_end_of_the_stream() -> None:
    assert read(frame(1, 1, 1, b"\x20"), frame(9, 4, 1, b"\x8d"))[:2] == (404, b"")


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([frame(0, 1, 1, b"x")], "content before the status"),
        ([frame(1, 5, 3, b"\x88")], "on stream 3, which is not open"),
        ([frame(1, 5, 1, b"\x88"), frame(0, 1, 1, b"x")], "on stream 1, which is not open"),
        ([frame(3, 0, 1, b"\0\0\0\x08")], "RST_STREAM with error 8"),
        ([frame(7, 0, 0, b"\0\0\0\1\0\0\0\2")], "GOAWAY with error 2"),
        ([frame(0, 0, 1, b"x" * 16_385)], "16,385 bytes, more than allowed"),
    ],
)
def test_frames_that_must_not_arrive(frames: list[bytes], said: str) -> None:
    source = io.BytesIO(SETTINGS + b"".join(frames))
    found = Frames(source.read, lambda data: None)
    found.open(1)
    found.open(5)
    with pytest.raises(WrongFrameError, match=said):
        found.wait(1)
        found.wait(5)


def test_settings_come_first() -> None:
    found = Frames(io.BytesIO(frame(1, 5, 1, b"\x88")).read, lambda data: None)
    found.open(1)
    with pytest.raises(WrongFrameError, match="before SETTINGS"):
        found.wait(1)


def test_a_request_is_decoded_by_another_implementation() -> None:
    hpack = pytest.importorskip("hpack")
    target = "/" + "a" * 300
    data = request(7, target, "127.0.0.1:80", "https")
    assert (int.from_bytes(data[:3], "big"), data[3:9]) == (len(data) - 9, b"\1\5\0\0\0\7")
    assert hpack.Decoder().decode(data[9:]) == [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", target),
        (":authority", "127.0.0.1:80"),
    ]
