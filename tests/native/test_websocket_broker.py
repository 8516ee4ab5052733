"""Topics across workers, with a real Redis server."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.server import Start
from support.waiting import wait_until
from support.websocket import BINARY, Frame, WebSocket, connect, frame, text

redis = pytest.importorskip("redis")
REDIS = shutil.which("redis-server")
pytestmark = [
    pytest.mark.skipif(REDIS is None, reason="redis-server is not installed"),
    pytest.mark.tools,
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Path]:
    """Start Redis on a socket of its own, without a file."""
    path = tmp_path / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen([str(REDIS), *options], stdout=subprocess.DEVNULL)

    def listens() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_until(listens)
    yield path
    process.terminate()
    process.wait()


def test_a_message_reaches_the_subscribers_of_all_workers(start: Start, broker: Path) -> None:
    server = start("sockets/broker.py", "--workers", "2", env={"REDIS": str(broker)})
    with ExitStack() as stack:
        by_worker: dict[bytes, WebSocket] = {}
        others = []
        while len(by_worker) < 2 and len(others) < 100:
            one = stack.enter_context(connect(server))
            one.open("/news/weather")
            pid = one.frame().content
            if by_worker.setdefault(pid, one) is not one:
                others.append(one)
        assert len(by_worker) == 2
        elsewhere = stack.enter_context(connect(server))
        elsewhere.open("/news/sport")
        elsewhere.frame()
        for said, speaker in enumerate(by_worker.values()):
            speaker.say(f"message {said}")
            for each in (*by_worker.values(), *others):
                assert each.frame() == text(f"message {said}")
        elsewhere.say("own")
        assert elsewhere.frame() == text("own")


def test_what_is_no_text_does_not_end_the_forwarding(start: Start, broker: Path) -> None:
    server = start("sockets/broker.py", env={"REDIS": str(broker)})
    with connect(server) as speaker:
        speaker.open("/news/weather")
        speaker.frame()
        for content in (b"\xff", b"t\xff", b"", "\N{SNOWMAN}".encode()):
            speaker.send(frame(BINARY, content))
            assert speaker.frame() == Frame(BINARY, content)
        with redis.Redis(unix_socket_path=str(broker)) as other:
            other.publish("news.weather", b"t\xff")  # from a program that does not pack messages
        server.wait_line("a message is not forwarded")
        speaker.say("after it")
        assert speaker.frame() == text("after it")
