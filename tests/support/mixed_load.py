"""A load of every kind, and ledgers of its clients and of the application, which must agree.

Keep-alive, pipelines, connections that are not kept, HTTP/2, uploads, streams and WebSockets.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from support.client import Connection
from support.server import Server, clean_environ
from support.websocket import CLOSE, WebSocket, close_frame, closing, text

WEBSOCKETS = 3
PARTS = 10
APP = """
import asyncio, os
import bolide

app = bolide.App()
LEDGER = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.get("/")
def hello(request):
    return "hello"

@app.post("/count")
async def count(request):
    return str(len(await request.body()))

@app.get("/stream")
async def stream(request):
    async def parts():
        for number in range(10):
            yield f"{number}\\n"
            await asyncio.sleep(0.02)
    return parts()

@app.websocket("/echo")
async def echo(ws):
    echoed = 0
    try:
        async for message in ws:
            await ws.send(message)
            echoed += 1
    finally:
        os.write(LEDGER, f"{ws.close_code} {echoed}\\n".encode())
"""


KINDS = (
    ("--connections", "4"),
    ("--connections", "2", "--pipeline", "4"),
    ("--connections", "2", "--no-keep-alive"),
    ("--connections", "2", "--http2"),
)
"""Of `bolide load`."""


@dataclass
class Ledger:
    """What the clients of one kind have seen."""

    seen: Counter[str] = field(default_factory=Counter)
    echoed: int = 0


def upload(server: Server, ledger: Ledger, over: threading.Event) -> None:
    """Upload one content after the other, each in two parts, on new connections."""
    while not over.is_set():
        with Connection(server.address) as client:
            client.send(b"POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n")
            client.send(b"x" * 50_000)
            over.wait(0.05)
            client.send(b"x" * 50_000)
            reply = client.read()
            ledger.seen[f"{reply.status} {reply.content.decode()}"] += 1


def stream(server: Server, ledger: Ledger, over: threading.Event) -> None:
    """Read one stream after the other, on connections that are kept."""
    while not over.is_set():
        with Connection(server.address) as client:
            is_last = False
            while not (is_last or over.is_set()):
                reply = client.get("/stream")
                ledger.seen[f"{reply.status} {len(reply.content.split())}"] += 1
                is_last = reply.is_last


def converse(server: Server, ledger: Ledger, over: threading.Event) -> None:
    """Send one message after the other, each when the one before has come back."""
    while not over.is_set():
        with WebSocket(server.address) as client:
            client.open("/echo")
            ledger.seen[str(conversation(client, ledger, over))] += 1
            assert client.is_closed()


def conversation(client: WebSocket, ledger: Ledger, over: threading.Event) -> int:
    """Return the code with which the server closes, or 1000 if the client did."""
    number = 0
    while not over.wait(0.01):
        number += 1
        client.say(str(number))
        frame = client.frame()
        if frame.opcode == CLOSE:
            client.send(close_frame(int.from_bytes(frame.content[:2], "big")))
            return int.from_bytes(frame.content[:2], "big")
        assert frame == text(str(number))
        ledger.echoed += 1
    client.send(close_frame(1000))
    assert client.frame() == closing(1000)
    return 1000


def loaded(server: Server, duration: str, kind: tuple[str, ...]) -> subprocess.Popen[str]:
    options = ("--rate", "100", "--duration", duration, "--json", *kind)
    return subprocess.Popen(
        [sys.executable, "-m", "bolide", "load", server.urls[0], *options],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def running(
    kind: Callable[[Server, Ledger, threading.Event], None],
    server: Server,
    ledger: Ledger,
    over: threading.Event,
    failures: list[str],
) -> threading.Thread:
    def run() -> None:
        try:
            kind(server, ledger, over)
        except Exception as error:
            failures.append(f"{kind.__name__}: {error!r}")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


class MixedLoad:
    """All kinds of load on one server, for some seconds at least, and until `end` is called."""

    def __init__(self, server: Server, duration: str = "8s") -> None:
        self._over = threading.Event()
        self._failures: list[str] = []
        self._uploads, self._streams = Ledger(), Ledger()
        self._websockets = [Ledger() for _ in range(WEBSOCKETS)]
        kinds = [(upload, self._uploads), (stream, self._streams)]
        kinds += [(converse, each) for each in self._websockets]
        self._threads = [
            running(kind, server, ledger, self._over, self._failures) for kind, ledger in kinds
        ]
        self._loads = [loaded(server, duration, kind) for kind in KINDS]
        self._outputs: list[tuple[str, str]] = []

    @property
    def is_running(self) -> bool:
        """Whether a load that has a duration has not ended."""
        return any(load.poll() is None for load in self._loads)

    def end(self) -> None:
        """End it; the server is still to serve."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if not self._outputs:
            self._outputs = [load.communicate(timeout=30) for load in self._loads]

    def check(self, written: str, restarts: int) -> None:
        """Compare the ledgers: what the application has written, and what the clients saw."""
        assert not self._failures
        for output, errors in self._outputs:
            assert '"failed": 0' in output, (output, errors)
        assert self._uploads.seen.keys() == {"200 100000"}
        assert self._streams.seen.keys() == {f"200 {PARTS}"}
        compare(self._websockets, written, restarts)


def compare(clients: list[Ledger], written: str, restarts: int) -> None:
    """Check that each WebSocket was closed in the same way on both sides, and no echo was lost."""
    lines = [line.split() for line in written.splitlines()]
    codes = sum((each.seen for each in clients), Counter[str]())
    assert Counter(code for code, _ in lines) == codes
    assert codes.keys() <= {"1012", "1000"}
    assert codes["1012"] >= restarts
    assert sum(int(echoed) for _, echoed in lines) == sum(each.echoed for each in clients)
