"""Clients that write down in a ledger what they sent and what became of it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from faults.ledger import Entry, Ledger, Outcome
from support.client import Connection
from support.h2 import Client, ClosedError, Code, Kind, get
from support.server import Server

Connect = Callable[[], Connection]


def request(path: str, entry: Entry, content: bytes | None = None) -> bytes:
    """Return a request that names its entry."""
    mark = "&" if "?" in path else "?"
    line = f"{'GET' if content is None else 'POST'} {path}{mark}id={entry.identity} HTTP/1.1\r\n"
    length = b"" if content is None else f"Content-Length: {len(content)}\r\n".encode()
    return line.encode() + b"Host: test\r\n" + length + b"\r\n" + (content or b"")


def send(connection: Connection, entries: Iterable[Entry], octets: list[bytes]) -> bool:
    """Send requests at once; return whether all was sent."""
    try:
        connection.send(b"".join(octets))
    except OSError as error:
        for entry in entries:
            entry.errno = error.errno
        return False
    for entry, each in zip(entries, octets, strict=True):
        entry.sent_bytes = len(each)
    return True


def receive(connection: Connection, entry: Entry) -> bool:
    """Read a response; return whether another one may follow on the connection."""
    try:
        if not connection.has_more():
            entry.outcome = Outcome.CLOSED
            return False
    except (ConnectionError, ssl.SSLEOFError) as error:
        entry.outcome, entry.errno = Outcome.RESET, error.errno
        return False
    except OSError:
        entry.outcome = Outcome.SILENT
        return False
    try:
        reply = connection.read()
    except (AssertionError, OSError) as error:
        entry.outcome, entry.errno = Outcome.CUT, getattr(error, "errno", None)
        return False
    entry.outcome, entry.status, entry.content = Outcome.COMPLETE, reply.status, reply.content[:80]
    with suppress(IndexError, ValueError):
        entry.responder = int(reply.content[:80].split()[1].rstrip(b"."))
    return not reply.is_last


def exchange(connection: Connection, ledger: Ledger, *paths: str) -> list[Entry]:
    """Send requests at once and read the responses, as far as they come."""
    entries = [ledger.begin() for _ in paths]
    octets = [request(path, entry) for path, entry in zip(paths, entries, strict=True)]
    if send(connection, entries, octets):
        is_open, end = True, Outcome.CLOSED
        for entry in entries:
            if is_open:
                is_open = receive(connection, entry)
                end = Outcome.RESET if entry.outcome is Outcome.RESET else end
            else:
                entry.outcome = end
    return entries


def may_go_on(entries: list[Entry], connection: Connection) -> bool:
    """Whether the connection of an exchange can be used for another one."""
    if any(entry.outcome is not Outcome.COMPLETE for entry in entries):
        return False
    connection.socket.setblocking(False)
    try:
        return connection.has_more()
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    finally:
        connection.socket.settimeout(10)


class Traffic:
    """Clients in threads; each opens a connection when the one before has ended."""

    def __init__(self, server: Server, ledger: Ledger, tls: ssl.SSLContext | None = None) -> None:
        self.ledger, self.failures = ledger, list[str]()
        self.over = threading.Event()
        self._server, self._tls = server, tls
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures

    def connect(self) -> Connection:
        """Open a connection."""
        connection = Connection(self._server.address)
        if self._tls is not None:
            try:
                connection.socket = self._tls.wrap_socket(
                    connection.socket, server_hostname="localhost"
                )
            except BaseException:
                connection.socket.close()
                raise
        return connection

    def add(self, clients: int, *paths: str, is_kept: bool = True, pause_s: float = 0.0) -> None:
        """Start clients, which send the requests for all paths at once, again and again."""
        for _ in range(clients):
            self.run(lambda: self._repeat(paths, is_kept, pause_s))

    def add_h2(self, clients: int, path: str, streams: int, pause_s: float = 0.0) -> None:
        """Start clients that open so many streams at once, again and again."""
        for _ in range(clients):
            self.run(lambda: self._repeat_h2(path, streams, pause_s))

    def run(self, work: Callable[[], None]) -> None:
        """Run a client in a thread."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                self.failures.append(repr(error))

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _repeat(self, paths: tuple[str, ...], is_kept: bool, pause_s: float) -> None:
        while not self.over.is_set():
            try:
                connection = self.connect()
            except OSError as error:
                self.ledger.begin().errno = error.errno
                self.over.wait(0.01)
                continue
            with connection:
                is_open = True
                while is_open and not self.over.is_set():
                    entries = exchange(connection, self.ledger, *paths)
                    is_open = is_kept and may_go_on(entries, connection)
                    self.over.wait(pause_s)

    def _repeat_h2(self, path: str, streams: int, pause_s: float) -> None:
        while not self.over.is_set():
            with Client(self.connect()) as client:
                first, is_open = 1, True
                while is_open and not self.over.is_set():
                    is_open = exchange_h2(client, self.ledger, path, first, streams)
                    first += 2 * streams
                    self.over.wait(pause_s)


def exchange_h2(client: Client, ledger: Ledger, path: str, first: int, streams: int) -> bool:
    """Open streams at once and read their responses; return whether more may be opened."""
    entries = {first + 2 * number: ledger.begin() for number in range(streams)}
    octets = [get(stream, f"{path}&id={entry.identity}") for stream, entry in entries.items()]
    if not send(client.connection, entries.values(), octets):
        return False
    errno = None
    try:
        for stream in entries:
            while stream not in client.messages or not client.messages[stream].is_over:
                client.read()
    except ClosedError:
        errno = 0
    except OSError as error:
        errno = error.errno
    goaways = [each for each in client.frames if each.kind == Kind.GOAWAY]
    last = goaways[-1].last_stream if goaways else None
    for stream, entry in entries.items():
        judge_stream(client, stream, entry, errno, last)
    return errno is None and not goaways


def judge_stream(
    client: Client, stream: int, entry: Entry, errno: int | None, last: int | None
) -> None:
    """Write down what became of a stream."""
    message = client.messages.get(stream)
    entry.errno = errno
    if message is not None and message.is_complete:
        entry.outcome, entry.status = Outcome.COMPLETE, message.status
        entry.content = bytes(message.content[:80])
    elif message is not None and message.status:
        entry.outcome = Outcome.CUT
    elif (message is not None and message.reset is Code.REFUSED_STREAM) or (
        last is not None and stream > last
    ):
        entry.outcome = Outcome.CLOSED  # RFC 9113 sections 6.8 and 8.7: it was not processed
    else:
        entry.outcome = Outcome.RESET if errno else Outcome.CLOSED
