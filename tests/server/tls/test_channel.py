"""New certificates reach a worker, whatever is short meanwhile."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

import pytest

from bolide import _core
from bolide.server.tls.channel import Channel, channel, receive


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
    assert receive(theirs) is None
    for generation in (0, 1, 1):
        ours.send(generation, in_memory)
    assert receive(theirs) == b"content"
    assert receive(theirs) is None


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
    assert receive(theirs) == b"content"
    assert inheritable == [False]


def test_a_worker_without_descriptors_gets_it_later(
    ends: tuple[Channel, int], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends
    ours.send(1, in_memory)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert receive(theirs) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "did not arrive" in caplog.text
    ours.send(1, in_memory)
    assert receive(theirs) == b"content"
    ours.send(1, in_memory)
    assert receive(theirs) is None


def test_a_supervisor_without_descriptors_sends_it_later(
    ends: tuple[Channel, int], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = ends

    def fail() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    ours.send(1, fail)
    assert "cannot be sent to a worker, which is tried again: Too many open files" in caplog.text
    assert receive(theirs) is None
    ours.send(1, in_memory)
    assert receive(theirs) == b"content"


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
