"""Connections to the management listener, in a loop that the test runs."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server import listener
from bolide.server.management.listening import CONNECTIONS_MAX, TIMEOUT_S, Listening
from bolide.server.management.request import Reply, Request
from support.waiting import wait_until


class Loop:
    """A listener, and the selector of the supervisor."""

    def __init__(self) -> None:
        self.listeners = listener.open_all([Address("127.0.0.1", 0), Address("127.0.0.1", 0)])
        self.selector = selectors.PollSelector()
        self.listening = Listening([*self.listeners], serve)
        self.listening.open(self.selector)
        self.clients: list[socket.socket] = []

    def connect(self, index: int = 0) -> socket.socket:
        """Connect a client, which is not accepted yet."""
        address = self.listeners[index].address
        self.clients.append(socket.create_connection((address.host, address.port)))
        return self.clients[-1]

    def wait_ready(self, count: int) -> list[selectors.SelectorKey]:
        """Wait until so many descriptors are ready."""
        wait_until(lambda: len(self.selector.select(0)) == count)
        return [key for key, _ in self.selector.select(0)]

    def run(self, count: int) -> None:
        """Serve that many descriptors, all of which are ready."""
        for key in self.wait_ready(count):
            key.data()

    def close(self) -> None:
        """Close all."""
        self.listening.close()
        listener.close_all(self.listeners)
        for each in self.clients:
            each.close()
        self.selector.close()


def serve(request: Request) -> tuple[Reply, None]:
    return Reply(200, request.path.encode()), None


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_a_connection_may_be_closed_after_it_was_reported(loop: Loop) -> None:
    for _ in range(CONNECTIONS_MAX):
        loop.connect()
        loop.run(1)
    loop.clients[0].sendall(b"GET / HTTP/1.1\r\n")
    loop.connect()
    loop.run(2)  # accepts, which closes the oldest, and then reads from that
    with pytest.raises(ConnectionResetError):
        loop.clients[0].recv(1)
    assert len([*loop.listening.fds()]) == CONNECTIONS_MAX


def test_a_request_may_arrive_in_pieces(loop: Loop) -> None:
    client = loop.connect()
    loop.run(1)
    for piece in (b"GET /x HTTP/1.1\r\nHo", b"st: localhost\r", b"\n\r\n"):
        client.sendall(piece)
        loop.run(1)
    assert client.recv(1000).endswith(b"\r\n\r\n/x")
    assert client.recv(1) == b""


def test_the_time_of_a_connection_ends(loop: Loop) -> None:
    client = loop.connect()
    loop.run(1)
    due = loop.listening.due
    assert due is not None
    assert time.monotonic() < due <= time.monotonic() + TIMEOUT_S
    loop.listening.do_what_is_due(due - 0.1)
    assert len([*loop.listening.fds()]) == 1
    loop.listening.do_what_is_due(due)
    assert client.recv(1) == b""
    assert loop.listening.due is None


def exhausted(_: socket.socket) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_nothing_is_accepted_for_a_while_without_a_descriptor(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(2):
        loop.connect(index)
    ready = loop.wait_ready(2)
    monkeypatch.setattr(socket.socket, "accept", exhausted)
    for key in ready:
        key.data()
    assert loop.selector.select(0) == []
    monkeypatch.undo()
    due = loop.listening.due
    assert due is not None
    loop.listening.do_what_is_due(due)
    loop.run(2)
    assert len([*loop.listening.fds()]) == 2


def test_a_listener_that_cannot_listen_leaves_the_others_closable() -> None:
    class Lost(listener.Listener):
        def listen(self, backlog: int) -> None:
            raise ConfigError("another process listens there")

    first, second = listener.open_all([Address("127.0.0.1", 0), Address("127.0.0.1", 0)])
    lost = Lost(second.socket, second.address)
    listening = Listening([first, lost], serve)
    with pytest.raises(ConfigError, match="another process listens there"):
        listening.open(selectors.PollSelector())
    listening.close()
    for each in (first, lost):
        each.close()
