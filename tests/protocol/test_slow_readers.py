"""Clients that read slowly, and clients that do not read: the first are served, the others cut."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from protocol.pressure import APPLICATION
from support.client import Connection, Reply
from support.peer import connect, is_reset
from support.request import head
from support.server import Server, Start

pytestmark = pytest.mark.slow

WRITE_TIMEOUT_S = 1
WRITE_TIMEOUT = ("--write-timeout-ms", str(WRITE_TIMEOUT_S * 1000))
SIZE = 9_000_000
BIG, PARTS, PARTS_LATER = f"/big/{SIZE}", "/parts/140", "/parts-later/140"
"""Each is longer than what the kernel's buffers take."""
PATHS = {"native": (BIG, PARTS, PARTS_LATER), "asgi": (BIG, PARTS), "wsgi": (BIG, PARTS)}
LAST_CHUNK = b"\r\n0\r\n\r\n"

interfaces = pytest.mark.parametrize("interface", PATHS)


class Download:
    """A long response that a client reads at the pace that the test sets."""

    def __init__(self, client: Connection, path: str) -> None:
        self.client, self.path = client, path
        client.send(head("GET", path))
        self._reply: Reply = client.read_head()
        self._count = 0
        self._tail = b""

    def take(self, most_bytes: int) -> None:
        """Read at most so many bytes; the response must not end."""
        part = self.client.take(most_bytes)
        assert part, f"the response to {self.path} ended after {self._count} bytes"
        self._count += len(part)
        self._tail = (self._tail + part)[-len(LAST_CHUNK) :]

    def take_rest(self) -> None:
        """Read to the last byte, as fast as it goes."""
        while not self._is_complete():
            self.take(1 << 20)

    def _is_complete(self) -> bool:
        length = self._reply.get("content-length")
        return self._tail == LAST_CHUNK if length is None else self._count == int(length)


def begin(server: Server, interface: str, clients: ExitStack) -> list[Download]:
    """Ask for each kind of a long response, on a connection each."""
    paths = PATHS[interface]
    return [Download(clients.enter_context(server.connect()), path) for path in paths]


class OwnPauseError(Exception):
    """This process was stopped for so long that the server was right to cut its connection."""


def read_steadily(downloads: list[Download], size: int, pause_s: float, for_s: float) -> None:
    """Read so many bytes of each after each pause, for some time.

    Raises:
        OwnPauseError: a response was cut, and this process has not read for half of the timeout.
    """
    last = time.monotonic()
    end, longest_s = last + for_s, 0.0
    while last < end:
        time.sleep(pause_s)
        now = time.monotonic()
        last, longest_s = now, max(longest_s, now - last)
        try:
            for each in downloads:
                each.take(size)
        except (AssertionError, ConnectionError):
            if longest_s > WRITE_TIMEOUT_S / 2:
                raise OwnPauseError from None
            raise


def repeated_after_a_pause(test: Callable[[Start, str], None]) -> Callable[[Start, str], None]:
    """Run a test again, twice at most, if it could not read steadily."""

    @functools.wraps(test)
    def run(start: Start, interface: str) -> None:
        for _ in range(2):
            try:
                return test(start, interface)
            except OwnPauseError:
                pass
        return test(start, interface)

    return run


@interfaces
@repeated_after_a_pause
def test_a_steady_reader_is_served_to_the_end(start: Start, interface: str) -> None:
    """The kernel takes more of a response only when a third of what it holds was read."""
    server = start(*APPLICATION[interface], *WRITE_TIMEOUT)
    with ExitStack() as clients:
        downloads = begin(server, interface, clients)
        read_steadily(downloads, 50_000, 0.1, for_s=3)
        for each in downloads:
            each.take_rest()
            assert each.client.get("/hello").content == b"hello"


@interfaces
def test_a_reader_that_stops_is_cut(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *WRITE_TIMEOUT)
    with ExitStack() as clients:
        downloads = begin(server, interface, clients)
        read_steadily(downloads, 50_000, 0.1, for_s=0.3)
        began = time.monotonic()
        for each in downloads:
            assert is_reset(each.client, within_s=10), each.path
            assert time.monotonic() - began > 0.5, each.path


def read_slowly(client: Connection, for_s: float) -> Download:
    """Read about 100 KB per second for some time."""
    download = Download(client, BIG)
    read_steadily([download], 5_000, 0.05, for_s)
    return download


@interfaces
@repeated_after_a_pause
def test_a_reader_below_the_minimum_rate_is_cut(start: Start, interface: str) -> None:
    rate = ("--response-rate-bytes-per-s-min", "1000000")
    server = start(*APPLICATION[interface], *WRITE_TIMEOUT, *rate)
    with connect(server, 16_384) as client:
        with pytest.raises(ConnectionResetError):
            read_slowly(client, for_s=8)


@interfaces
@repeated_after_a_pause
def test_a_slow_reader_above_the_minimum_rate_is_served(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface], *WRITE_TIMEOUT)
    with connect(server, 16_384) as client:
        read_slowly(client, for_s=2.5).take_rest()
        assert client.get("/hello").content == b"hello"


@interfaces
def test_a_request_after_a_long_download_is_served(start: Start, interface: str) -> None:
    """While the client reads what the kernel holds, the connection is not idle."""
    server = start(*APPLICATION[interface], "--keep-alive-timeout-ms", "1000")
    with ExitStack() as clients:
        downloads = begin(server, interface, clients)
        read_steadily(downloads, 120_000, 0.05, for_s=3)
        for each in downloads:
            each.take_rest()
        time.sleep(0.3)
        for each in downloads:
            assert each.client.get("/hello").content == b"hello"
