"""Connections to the management listener, in the loop of the supervisor and without a thread.

Nothing here waits: a client that is slow, silent or hostile keeps one of a few places for a few
seconds, and stops nobody. Each connection has one request. A worker that is forked has copies of
these descriptors, which it closes first (`Listening.fds`).
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from bolide.server.listener import Listener
from bolide.server.logs import logger
from bolide.server.management.request import (
    HEAD_BYTES_MAX,
    RefusedError,
    Reply,
    Request,
    check,
    parse,
    sentence,
)

CONNECTIONS_MAX = 32
"""Beyond that, the oldest is closed: monitoring needs one or two."""
TIMEOUT_S = 5.0
"""From the start of a connection to its end."""
BACKLOG = 64
ACCEPTS_MAX = 16
"""How many are accepted before the supervisor does something else."""
PAUSE_S = 1.0
"""Without a descriptor for a connection, none is accepted for so long."""

Serve = Callable[[Request], tuple[Reply, Callable[[], None] | None]]
"""Returns the response, and what to do after it was sent."""


@dataclass(slots=True, eq=False)
class Connection:
    """One client."""

    socket: socket.socket
    client: str
    """Its IP address; "" on a UNIX socket."""
    server: str
    """The address of this side."""
    due: float
    """When it is closed."""
    received: bytearray = field(default_factory=bytearray)
    unsent: memoryview = memoryview(b"")
    """The rest of the response."""
    has_response: bool = False
    is_closed: bool = False


class Listening:
    """The listening sockets and their connections."""

    def __init__(self, listeners: list[Listener], serve: Serve, name: str = "") -> None:
        self._listeners = listeners
        self._serve = serve
        self._name = name
        """The host of the option, which clients may send as Host."""
        self._connections: list[Connection] = []
        self._selector: selectors.BaseSelector | None = None
        self._paused_until: float | None = None

    def open(self, selector: selectors.BaseSelector) -> None:
        """Accept clients, in the loop of this selector.

        It is to call the data of a key, if that can be called.

        Raises:
            ConfigError: another process listens at the address.
        """
        for each in self._listeners:
            each.listen(BACKLOG)
        self._selector = selector
        self._watch_listeners()

    def close(self) -> None:
        """Close the connections, and listen no more. The listening sockets stay open."""
        for connection in list(self._connections):
            self._close(connection)
        self.leave()

    def leave(self) -> None:
        """Accept no more."""
        if self._selector is not None and self._paused_until is None:
            for each in self._listeners:
                self._selector.unregister(each.socket)
        self._listeners.clear()

    def fds(self) -> Iterator[int]:
        """Yield the descriptors of connections, which a worker closes."""
        yield from (each.socket.fileno() for each in self._connections)

    @property
    def due(self) -> float | None:
        """When `do_what_is_due` has something to do."""
        times = [each.due for each in self._connections]
        times += [self._paused_until] if self._paused_until is not None else []
        return min(times, default=None)

    def do_what_is_due(self, now: float) -> None:
        """Close connections whose time is over."""
        for each in [each for each in self._connections if each.due <= now]:
            self._close(each)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._watch_listeners()

    def _watch_listeners(self) -> None:
        if self._selector is None:
            return
        for each in self._listeners:
            accept = partial(self._accept, each)
            self._selector.register(each.socket, selectors.EVENT_READ, accept)

    def _accept(self, listener: Listener) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                accepted, peer = listener.socket.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:  # no descriptor is left
                self._pause(error)
                return
            if len(self._connections) >= CONNECTIONS_MAX:
                self._close(self._connections[0])
            accepted.setblocking(False)
            is_tcp = accepted.family != socket.AF_UNIX
            client, server = (peer[0], accepted.getsockname()[0]) if is_tcp else ("", "")
            due = time.monotonic() + TIMEOUT_S
            connection = Connection(accepted, client, server, due)
            self._connections.append(connection)
            self._watch(connection, selectors.EVENT_READ)

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a moment; otherwise the supervisor would try without end."""
        if self._paused_until is not None:
            return
        logger.warning("the management listener accepts nothing for %.0f s: %s", PAUSE_S, error)
        self._paused_until = time.monotonic() + PAUSE_S
        for each in self._listeners:
            if self._selector is not None:
                self._selector.unregister(each.socket)

    def _watch(self, connection: Connection, events: int) -> None:
        if self._selector is not None:
            ready = self._read if events == selectors.EVENT_READ else self._send
            self._selector.register(connection.socket, events, partial(ready, connection))

    def _unwatch(self, connection: Connection) -> None:
        if self._selector is not None:
            with suppress(KeyError, ValueError):
                self._selector.unregister(connection.socket)

    def _read(self, connection: Connection) -> None:
        if connection.is_closed:
            return  # since it was reported
        try:
            data = connection.socket.recv(HEAD_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        if connection.has_response:
            return  # discarded: closing with unread input could reset the response away
        connection.received += data
        head, is_complete, _ = connection.received.partition(b"\r\n\r\n")
        if is_complete or len(connection.received) >= HEAD_BYTES_MAX:
            self._respond(connection, bytes(head) if is_complete else None)

    def _respond(self, connection: Connection, head: bytes | None) -> None:
        method, action = "GET", None
        try:
            if head is None or len(head) > HEAD_BYTES_MAX:
                raise RefusedError(431, f"a head has {HEAD_BYTES_MAX} bytes at most")
            request = parse(head)
            method = request.method
            check(request, connection.client, connection.server, self._name)
            reply, action = self._serve(request)
        except RefusedError as error:
            reply = sentence(error.status, str(error))
        except Exception:
            logger.exception("an error in the management listener")
            reply = sentence(500, "an error in the server; its log has more")
        connection.unsent = memoryview(reply.encoded(method))
        connection.has_response = True
        self._unwatch(connection)
        self._watch(connection, selectors.EVENT_WRITE)
        self._send(connection)
        if action is not None:
            action()

    def _send(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        try:
            count = connection.socket.send(connection.unsent)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        connection.unsent = connection.unsent[count:]
        if not connection.unsent:
            # The client's end follows, or its time is over.
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            self._unwatch(connection)
            self._watch(connection, selectors.EVENT_READ)

    def _close(self, connection: Connection) -> None:
        connection.is_closed = True
        self._unwatch(connection)
        self._connections.remove(connection)
        connection.socket.close()
