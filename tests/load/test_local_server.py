"""Whether the load takes the processors of a server on this machine."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.load.local_server import processors_of, shared_processors
from load.conftest import StartCounting
from support.server import command

pytestmark = pytest.mark.slow


@pytest.fixture
def listener() -> Iterator[str]:
    """Return the address of a listener of this process, which lives as long as the test."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_the_processors_of_a_listener(listener: str, tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    assert processors_of(listener) == allowed
    with socket.create_server(("::", 0), family=socket.AF_INET6) as listening:
        port = listening.getsockname()[1]
        assert processors_of(f"[::1]:{port}") == processors_of(f"127.0.0.1:{port}") == allowed
    assert processors_of(f"127.0.0.1:{port}") == set()
    path = tmp_path / "a name"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        assert processors_of(f"unix:{path}") == allowed
    assert processors_of(f"192.0.2.1:{listener.rpartition(':')[2]}") == set()


@pytest.mark.parametrize(
    ("server", "load", "threads", "shared"),
    [
        ({0}, {0}, 1, [0]),
        ({0}, {0}, 4, [0]),
        ({0}, {1}, 4, []),
        ({0}, {0, 1}, 1, []),
        ({0}, {0, 1}, 2, [0]),
        ({0, 1}, {0, 1}, 1, []),
        ({0, 1}, {0, 1}, 2, [0, 1]),
        ({0, 1}, {0, 1, 2, 3}, 2, []),
    ],
)
def test_what_is_shared(
    server: set[int],
    load: set[int],
    threads: int,
    shared: list[int],
    listener: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: server if pid else load)
    assert shared_processors(listener, [], threads) == shared
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: server if pid else {*range(9)})
    assert shared_processors(listener, sorted(load), threads) == shared


def test_a_load_on_the_servers_processor_is_a_note(
    start_counting: StartCounting, tmp_path: Path
) -> None:
    processor = min(os.sched_getaffinity(0))
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
        server = start_counting()
    finally:
        os.sched_setaffinity(0, allowed)
    words = ("load", f"{server.urls[0]}/page/a", "-n", "50", "-c", "2", "--json")
    code, output, errors = command(*words, "--cpus", str(processor), cwd=tmp_path)
    assert (code, errors) == (0, "")
    assert json.loads(output)["shared_processors"] == [processor]
    assert json.loads(output)["warnings"][0].startswith("server and load share processor")
