"""A proxy of connections that delays, divides, cuts, or falls silent without an end."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from support.peer import RESET_ON_CLOSE
from support.waiting import wait_until


class Proxy:
    """Passes connections on to a server, in one thread; `port` is where it listens."""

    def __init__(
        self, address: tuple[str, int] | str, delay_s: float = 0, part_bytes: int = 65_536
    ) -> None:
        assert not isinstance(address, str)
        self.is_silent = False
        self._passed_bytes = 0
        self._address, self._delay_s, self._part_bytes = address, delay_s, part_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._ended = set[socket.socket]()
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for each in (self._listener, *self._peers):
            each.close()

    def wait_passed(self, count: int) -> None:
        """Wait until so many bytes of clients have been passed on."""
        wait_until(lambda: self._passed_bytes >= count)

    def cut(self) -> int:
        """Reset all connections; return how many."""
        self._over.set()
        self._thread.join()
        for each in self._peers:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            each.close()
        count = len(self._peers) // 2
        self._peers.clear()
        return count

    def _run(self) -> None:
        while not self._over.is_set():
            while self._due and self._due[0][0] <= time.monotonic():
                self._due.popleft()[1]()
            wait_s = min(0.05, self._due[0][0] - time.monotonic()) if self._due else 0.05
            waiting = (
                [] if self.is_silent else [self._listener, *(self._peers.keys() - self._ended)]
            )
            for each in select.select(waiting, [], [], max(0, wait_s))[0]:
                self._accept() if each is self._listener else self._pass(each)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._address)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers.update({client: server, server: client})

    def _pass(self, source: socket.socket) -> None:
        to = self._peers[source]
        try:
            octets = source.recv(self._part_bytes)
        except OSError:
            octets = b""
        is_of_client = source.getsockname()[1] == self.port
        due = time.monotonic() + self._delay_s
        self._due.append((due, lambda: self._deliver(to, octets, is_of_client)))
        if not octets:
            self._ended.add(source)

    def _deliver(self, to: socket.socket, octets: bytes, is_of_client: bool) -> None:
        with suppress(OSError):
            if octets:
                to.sendall(octets)
                self._passed_bytes += len(octets) * is_of_client
            else:
                to.shutdown(socket.SHUT_WR)
        pair = {to, self._peers.get(to, to)}
        if pair <= self._ended:
            for each in pair:
                each.close()
                self._peers.pop(each, None)
            self._ended -= pair
