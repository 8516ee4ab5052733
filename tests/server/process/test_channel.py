"""What is new reaches a worker, whatever is short meanwhile."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide import _core
from bolide.server.process.channel import Channel, Received, ask_for_log, channel, receive


@pytest.fixture
def ends() -> Iterator[tuple[Channel, int]]:
    """Return the supervisor's end and the worker's."""
    ours, theirs = channel(0)
    yield ours, theirs
    os.close(ours.fd)
    os.close(theirs)


def in_memory() -> int:
    return _core.memory_file(b"content")


def test_what_is_sent_arrives_once(ends: tuple[Channel, int]) -> None:
    ours, theirs = ends
    assert receive(theirs) == Received()
    for generation in (0, 1, 1):
        ours.send(generation, in_memory)
    assert receive(theirs).certificates == b"content"
    assert receive(theirs) == Received()


def test_no_other_program_inherits_it(
    ends: tuple[Channel, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = ends
    ours.send(1, in_memory)
    inheritable = []
    real_open = open

    def watched(fd: int, mode: str) -> object:
        inheritable.append(os.get_inheritable(fd))
        return real_open(fd, mode)

    monkeypatch.setattr("builtins.open", watched)
    assert receive(theirs).certificates == b"content"
    assert inheritable == [False]


def test_a_worker_without_descriptors_gets_it_later(
    ends: tuple[Channel, int], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends
    ours.send(1, in_memory)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert receive(theirs) == Received()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "did not arrive" in caplog.text
    ours.send(1, in_memory)
    assert receive(theirs).certificates == b"content"
    ours.send(1, in_memory)
    assert receive(theirs) == Received()


def test_a_worker_without_memory_gets_it_later(
    ends: tuple[Channel, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends
    ours.send(1, in_memory)

    def fail(fd: int, _: str) -> object:
        os.close(fd)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", fail)
        assert receive(theirs) == Received()
    text = "it cannot use the new ones: no memory is left; they are asked for again"
    assert text in caplog.text
    ours.send(1, in_memory)
    assert receive(theirs).certificates == b"content"


def test_a_supervisor_without_descriptors_sends_it_later(
    ends: tuple[Channel, int], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends

    def fail() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    ours.send(1, fail)
    assert "cannot be sent to a worker, which is tried again: Too many open files" in caplog.text
    assert receive(theirs) == Received()
    ours.send(1, in_memory)
    assert receive(theirs).certificates == b"content"


def test_a_worker_that_has_ended_is_sent_nothing() -> None:
    ours, theirs = channel(0)
    os.close(theirs)
    ours.send(1, in_memory)
    assert ours.generation == 1
    os.close(ours.fd)


def test_the_end_of_the_supervisor_is_reported() -> None:
    ours, theirs = channel(0)
    os.close(ours.fd)
    with pytest.raises(EOFError):
        receive(theirs)
    os.close(theirs)


def test_the_access_log_that_was_sent_last_arrives(
    ends: tuple[Channel, int], tmp_path: Path
) -> None:
    ours, theirs = ends
    for name in ("first", "second"):
        with open(tmp_path / name, "wb") as file:
            assert ours.send_access_log(file.fileno()) == ""
    ours.send(1, in_memory)
    received = receive(theirs)
    assert received.certificates == b"content"
    assert received.access_log_fd is not None
    assert not os.get_inheritable(received.access_log_fd)
    with open(received.access_log_fd, "wb") as file:
        file.write(b"line")
    assert (tmp_path / "second").read_bytes() == b"line"
    assert (tmp_path / "first").read_bytes() == b""


def test_a_worker_without_descriptors_keeps_its_access_log(
    ends: tuple[Channel, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends
    with open(tmp_path / "log", "wb") as file:
        assert ours.send_access_log(file.fileno()) == ""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert receive(theirs) == Received(is_log_lost=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "keeps the old access log: no descriptor is left for the new one" in caplog.text
    assert not ours.asks_for_log()
    ask_for_log(theirs)
    assert [ours.asks_for_log(), ours.asks_for_log()] == [True, False]


def test_a_question_about_the_access_log_is_heard_with_one_about_certificates(
    ends: tuple[Channel, int],
) -> None:
    ours, theirs = ends
    ask_for_log(theirs)
    ours.send(0, in_memory)
    assert ours.asks_for_log()
    assert receive(theirs) == Received()


def test_a_worker_that_has_ended_asks_for_nothing() -> None:
    ended, theirs = channel(None)
    os.close(theirs)
    with pytest.raises(EOFError):
        ended.asks_for_log()
    ours, theirs = channel(None)
    os.close(ours.fd)
    os.close(ended.fd)
    ask_for_log(theirs)
    os.close(theirs)


def test_why_an_access_log_cannot_be_sent(ends: tuple[Channel, int], tmp_path: Path) -> None:
    ours, _ = ends
    with open(tmp_path / "log", "wb") as file:
        reasons = [ours.send_access_log(file.fileno()) for _ in range(2000)]
    assert reasons[0] == "" and reasons[-1]
    ended, theirs = channel(None)
    os.close(theirs)
    assert ended.send_access_log(0) == ""
    os.close(ended.fd)
