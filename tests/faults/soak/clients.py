"""The clients of a soak: each habit is a connection with what it sends, and is counted."""

from __future__ import annotations

import os
import random
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path

from faults.soak.counts import Counts
from faults.soak.streams import Streams
from support import h2
from support.client import Connection, Reply
from support.peer import reset
from support.websocket import CLOSE, TEXT, WebSocket, close_frame
from support.websocket_carriers import StreamSocket, secured

PATTERN = bytes(range(256)) * 64
TIMEOUT_S = 300
"""The machine is busy, and these clients give way to everything else."""


class WrongResponseError(Exception):
    """A response is not the one of its request."""


@dataclass(frozen=True)
class Place:
    """A server, and where its clients count."""

    name: str
    interface: str
    is_secure: bool
    address: tuple[str, int]
    ledger: Path
    pause_s: float


@dataclass
class Client:
    """All clients of one server; each habit runs in a thread."""

    place: Place
    counts: Counts
    over: Event
    chance: random.Random = field(default_factory=random.Random)

    def connect(self) -> Connection:
        """Open a connection that speaks HTTP/1.1."""
        connection = Connection(self.place.address, timeout_s=TIMEOUT_S)
        if self.place.is_secure:
            with closed_on_failure(connection):
                secured(connection)
        return connection

    def rest(self) -> None:
        """Let some time pass."""
        self.over.wait(self.chance.uniform(0.5, 1.5) * self.place.pause_s)

    def name(self) -> str:
        """Return a new name for a request."""
        return f"{self.chance.getrandbits(48):x}"

    def complete(self, kind: str, got: bytes, expected: bytes) -> None:
        """Count a response, or a wrong one."""
        self.counts.add(f"{kind} complete")
        if got != expected:
            self.counts.add(f"{kind} wrong")
            raise WrongResponseError(f"{got[:80]!r} instead of {expected[:80]!r}")


@contextmanager
def closed_on_failure(connection: Connection) -> Iterator[None]:
    """Close a connection if what is done with it raises."""
    try:
        yield
    except BaseException:
        connection.socket.close()
        raise


def head(method: str, path: str, kind: str, name: str, *fields: str) -> bytes:
    """Return the head of a request that names its kind and itself."""
    mark = "&" if "?" in path else "?"
    lines = [f"{method} {path}{mark}kind={kind}&id={name} HTTP/1.1", "Host: test", *fields, "", ""]
    return "\r\n".join(lines).encode()


def expect(reply: Reply, status: int = 200) -> bytes:
    """Return the content of a response that must have that status."""
    if reply.status != status:
        raise WrongResponseError(f"status {reply.status}: {reply.content[:80]!r}")
    return reply.content


def kept(client: Client) -> None:
    """Send one request after another."""
    with client.connect() as connection:
        for _ in range(50):
            name, path = client.name(), client.chance.choice(("/small", "/later"))
            connection.send(head("GET", path, "kept", name))
            client.complete("kept", expect(connection.read()), name.encode())
            client.rest()


def pipelined(client: Client) -> None:
    """Send many requests at once."""
    with client.connect() as connection:
        for _ in range(10):
            names = [client.name() for _ in range(16)]
            connection.send(b"".join(head("GET", "/small", "pipelined", each) for each in names))
            for name in names:
                client.complete("pipelined", expect(connection.read()), name.encode())
            client.rest()


def single(client: Client) -> None:
    """Send one request on a connection."""
    with client.connect() as connection:
        name = client.name()
        connection.send(head("GET", "/small", "single", name, "Connection: close"))
        client.complete("single", expect(connection.read()), name.encode())
    client.rest()


def uploads(client: Client) -> None:
    """Send content of known length, and in chunks."""
    with client.connect() as connection:
        for _ in range(10):
            name, path = client.name(), client.chance.choice(("/upload", "/whole"))
            size = int(2 ** client.chance.uniform(0, 18.5))
            content = (PATTERN * (size // len(PATTERN) + 1))[:size]
            if client.chance.random() < 0.5:
                length = f"Content-Length: {size}"
                connection.send(head("POST", path, "upload", name, length) + content)
            else:
                connection.send(head("POST", path, "upload", name, "Transfer-Encoding: chunked"))
                for start in range(0, size, 40_000):
                    part = content[start : start + 40_000]
                    connection.send(b"%x\r\n%b\r\n" % (len(part), part))
                connection.send(b"0\r\n\r\n")
            client.counts.add("upload sent octets", size)
            client.complete("upload", expect(connection.read()), f"{name} {size}".encode())
            client.rest()


def downloads(client: Client) -> None:
    """Receive responses of many parts."""
    with client.connect() as connection:
        for _ in range(5):
            name, size = client.name(), client.chance.randrange(1, 600_000)
            connection.send(head("GET", f"/stream?size={size}", "stream", name))
            content = expect(connection.read())
            client.counts.add("stream got", len(content))
            expected = (PATTERN * (size // len(PATTERN) + 1))[:size]
            client.complete("stream", content, expected)
            client.rest()


def streams(client: Client) -> None:
    """Use HTTP/2: several requests at once, content, and a long response."""
    connection = Connection(client.place.address, timeout_s=TIMEOUT_S)
    with closed_on_failure(connection):
        if client.place.is_secure:
            secured(connection, "h2")
        scheme = "https" if client.place.is_secure else "http"
        session = Streams(h2.Client(connection, scheme=scheme))
    with connection:
        for _ in range(15):
            names = [client.name() for _ in range(6)]
            for name, content in session.get("/small?kind=h2", names).items():
                client.complete("h2", content, name.encode())
            name, size = client.name(), client.chance.randrange(1, 16_000)
            client.counts.add("h2-upload sent octets", size)
            content = session.post(f"/upload?kind=h2-upload&id={name}", PATTERN[:size])
            client.complete("h2-upload", content, f"{name} {size}".encode())
            name, size = client.name(), client.chance.randrange(1, 60_000)
            [content] = session.get(f"/stream?size={size}&kind=h2-stream", [name]).values()
            client.counts.add("h2-stream got", len(content))
            client.complete("h2-stream", content, (PATTERN * 4)[:size])
            client.rest()


def raising(client: Client) -> None:
    """Ask for an exception of the application."""
    with client.connect() as connection:
        name = client.name()
        connection.send(head("GET", "/raise", "raise", name, "Connection: close"))
        expect(connection.read(), 500)
        client.complete("raise", b"", b"")
    client.over.wait(2)


def silent(client: Client) -> None:
    """Keep connections open for some time between two requests."""
    with ExitStack() as stack:
        connections = [stack.enter_context(client.connect()) for _ in range(5)]
        for _ in range(2):
            for connection in connections:
                name = client.name()
                connection.send(head("GET", "/small", "silent", name))
                client.complete("silent", expect(connection.read()), name.encode())
            client.over.wait(client.chance.uniform(1, 20))


def talk(client: Client, socket: WebSocket, kind: str) -> None:
    """Have messages echoed, then close."""
    with socket:
        socket.open(f"/echo?kind={kind}&id={client.name()}")
        for _ in range(30):
            size = int(2 ** client.chance.uniform(0, 12))
            message = client.chance.choice("abcdef") * size
            socket.say(message)
            client.counts.add(f"{kind} sent octets", size)
            frame = socket.frame()
            client.counts.add(f"{kind} got", len(frame.content))
            if (frame.opcode, frame.content) != (TEXT, message.encode()):
                client.counts.add(f"{kind} wrong")
                raise WrongResponseError(f"{frame.content[:40]!r} instead of {message[:40]!r}")
            client.rest()
        socket.send(close_frame())
        if socket.frame().opcode != CLOSE:
            raise WrongResponseError("no close frame")
        client.complete(kind, b"", b"")


def websocket(client: Client) -> None:
    """Open a WebSocket over HTTP/1.1."""
    socket = WebSocket(client.place.address, timeout_s=TIMEOUT_S)
    if client.place.is_secure:
        with closed_on_failure(socket):
            secured(socket)
    talk(client, socket, "websocket")


def websocket_on_stream(client: Client) -> None:
    """Open a WebSocket on a stream of HTTP/2."""
    talk(client, StreamSocket(client.place.address, timeout_s=TIMEOUT_S), "h2-websocket")


def leave(client: Client) -> None:
    """Leave at any point, with a reset or an ordinary close."""
    client.counts.add("leave left")
    with suppress(OSError, ssl.SSLError):
        way = client.chance.choice(("handshake", "head", "content", "request", "response"))
        connection = Connection(client.place.address, timeout_s=TIMEOUT_S)
        with closed_on_failure(connection):
            if client.place.is_secure and way != "handshake":
                secured(connection)
            leave_by(client, connection, way)
        reset(connection) if client.chance.random() < 0.5 else connection.socket.close()
    client.rest()


def leave_by(client: Client, connection: Connection, way: str) -> None:
    post = head("POST", "/upload", "leave", client.name(), "Content-Length: 100000")
    if way == "handshake":
        connection.send(os.urandom(client.chance.randrange(1, 100)))
    elif way == "head":
        connection.send(post[: client.chance.randrange(1, len(post))])
    elif way == "content":
        connection.send(post + b"x" * client.chance.randrange(99_999))
    elif way == "request":
        connection.send(head("GET", "/later", "leave", client.name()))
    else:
        connection.send(head("GET", "/stream?size=3000000", "leave", client.name()))
        connection.take(client.chance.randrange(1, 10_000))


Habit = Callable[[Client], None]
HABITS: tuple[Habit, ...] = (
    *(kept, kept, pipelined, single, uploads, uploads, downloads, streams, streams),
    *(raising, silent, leave),
)
TALKS: tuple[Habit, ...] = (websocket, websocket)


def drive(place: Place, over: Event, may_go: Event) -> None:
    """Run all habits until it is over; what fails is counted as lost, and noted."""
    os.nice(1)
    counts = Counts(place.ledger / "clients")
    habits = list(HABITS)
    if place.interface != "wsgi":
        habits += [*TALKS, websocket_on_stream] if place.is_secure else TALKS
    threads = [
        threading.Thread(target=repeat, args=(habit, place, counts, over, may_go))
        for habit in habits
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def repeat(habit: Habit, place: Place, counts: Counts, over: Event, may_go: Event) -> None:
    client = Client(place, counts, over)
    while not over.is_set():
        if not may_go.wait(0.2):
            continue
        try:
            habit(client)
        except Exception as error:  # everything that fails is to be seen
            counts.add(f"{habit.__name__} lost")
            with (place.ledger / "failures").open("a") as file:
                file.write(f"{place.name}, {habit.__name__}: {type(error).__name__}: {error}\n")
            over.wait(0.1)
