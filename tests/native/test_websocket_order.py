"""What a handler does in one step has its effects in that order.

Random steps of all operations are compared with a model: a WebSocket receives what is sent, and
what is published while it subscribes, in the order of the calls, up to its close.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import h2
from support.loops import Serving
from support.server import Server
from support.websocket import TEXT, Frame, WebSocket, closing, connect, frame, text

pytestmark = pytest.mark.slow

Step = list[list[str]]

NAMES = st.sampled_from(["send", "publish", "subscribe", "unsubscribe"])
STEPS = st.lists(st.lists(NAMES, max_size=6), min_size=1, max_size=3)
AT_END = st.lists(st.just("publish"), max_size=2)
TOPICS = map(str, itertools.count())


class Client:
    """A client of one WebSocket, over either version of HTTP."""

    def __init__(self, send: Callable[[bytes], None], receive: Callable[[], Frame]) -> None:
        self.send = send
        self.receive = receive


@contextmanager
def over_h1(server: Server, path: str) -> Iterator[Client]:
    """Open a WebSocket over HTTP/1.1."""
    with connect(server) as socket:
        socket.open(path)
        yield Client(socket.send, socket.frame)


class StreamReader(WebSocket):
    """Reads frames from the content of a stream."""

    def __init__(self, client: h2.Client) -> None:
        self.client = client
        self.used = 0

    def _read_exactly(self, count: int) -> bytes:
        message = self.client.messages[1]
        while len(message.content) < self.used + count:
            self.client.read()
        self.used += count
        return bytes(message.content[self.used - count : self.used])


@contextmanager
def over_h2(server: Server, path: str) -> Iterator[Client]:
    """Open a WebSocket over HTTP/2 (RFC 8441)."""
    with h2.Client(server.connect()) as client:
        protocol, version = (b":protocol", b"websocket"), (b"sec-websocket-version", b"13")
        fields = h2.request_fields("CONNECT", path, protocol, version)
        client.send(h2.headers(1, fields, is_last=False))
        client.read_until(h2.Kind.HEADERS, 1)
        assert client.messages[1].status == 200
        yield Client(lambda octets: client.send(h2.data(1, octets)), StreamReader(client).frame)


OPENED = {"h1": over_h1, "h2": over_h2}


@pytest.fixture(scope="module")
def server(serving: Serving) -> Server:
    """Serve the application."""
    return serving("sockets/script.py", "--h2c")


def numbered(steps: list[list[str]]) -> list[Step]:
    """Give each operation that has one a content of its own."""
    contents = map(str, itertools.count())
    takes = ("send", "publish")
    return [[[name, next(contents)] if name in takes else [name] for name in it] for it in steps]


def received(steps: list[Step]) -> list[Frame]:
    """Return what the client must receive."""
    frames, subscribes, is_closed = [], False, False
    for operation, *arguments in itertools.chain(*steps):
        if is_closed:
            continue
        if operation == "send" or operation == "publish" and subscribes:
            frames.append(text(arguments[0]))
        elif operation in ("subscribe", "unsubscribe"):
            subscribes = operation == "subscribe"
        elif operation == "close":
            is_closed = True
            frames.append(closing(3000))
    return frames


@pytest.mark.parametrize("protocol", ["h1", "h2"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(accepts=st.booleans(), steps=STEPS, after=AT_END)
def test_effects_have_the_order_of_the_calls(
    server: Server, protocol: str, accepts: bool, steps: list[list[str]], after: list[str]
) -> None:
    script = numbered([["accept"] * accepts + steps[0], *steps[1:]])
    script[-1].append(["close"])
    script[-1] += [[name, f"after {number}"] for number, name in enumerate(after)]
    topic = next(TOPICS)
    with connect(server) as observer:
        observer.open(f"/observe/{topic}")
        assert observer.frame() == text("subscribed")
        path = f"/script/{topic}?script={quote(json.dumps(script[0]))}"
        with OPENED[protocol](server, path) as client:
            for step in script[1:]:
                client.send(frame(TEXT, json.dumps(step)))
            expected = received(script)
            assert [client.receive() for _ in expected] == expected
        for operation, *arguments in itertools.chain(*script):
            if operation == "publish":
                assert observer.frame() == text(arguments[0])
