"""A connection's last response arrives whole, whatever its client goes on sending."""

from __future__ import annotations

import signal

import pytest

from protocol.pressure import APPLICATION, wait_held
from support.client import Connection
from support.peer import connect
from support.request import head
from support.server import Server, Start
from support.waiting import wait_until
from support.worker import stopped

pytestmark = pytest.mark.slow

SIZE = 3_000_000
"""More than the kernel takes before the client reads."""
MOST = 2_400_000
"""After so much, the kernel has taken the rest: the server has nothing more to send."""
JUNK = b"j" * 70_000
"""More than one read of the server's brings."""
RECEIVE_BUFFER_BYTES = 65_536
"""So that the rest of the response is still on its way."""
READ_AHEAD_BYTES = 17_408
"""What one read brings when several connections are ready."""

interfaces = pytest.mark.parametrize("interface", ["native", "asgi", "wsgi", "wsgi, inline"])


def request(path: str = f"/big/{SIZE}", *fields: str) -> bytes:
    """Return a request after which the connection is to be closed."""
    return head("GET", path, "Connection: close", *fields)


def take(client: Connection, size: int) -> None:
    """Read so many bytes."""
    missing = size
    while missing:
        part = client.take(missing)
        assert part, f"the connection ended {missing} bytes early"
        missing -= len(part)


def take_all(client: Connection) -> None:
    """Read the whole response and the end."""
    reply = client.read_head()
    assert (reply.get("content-length"), reply.is_last) == (str(SIZE), True)
    take(client, SIZE)
    assert client.take(1) == b""


@interfaces
def test_junk_after_a_request(start: Start, interface: str) -> None:
    """A read ends with the request, so that the server has not seen that more came."""
    server = start(*APPLICATION[interface])
    padding = READ_AHEAD_BYTES - len(request(f"/big/{SIZE}", "P: "))
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        client.send(head("GET", "/hello"))
        assert client.read().content == other.get("/hello").content == b"hello"
        with stopped(server):
            client.send(request(f"/big/{SIZE}", "P: " + padding * "p") + JUNK)
            other.send(head("GET", "/hello"))
        assert other.read().content == b"hello"
        take_all(client)


@interfaces
def test_junk_after_content(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    length = 30_000
    fields = ("Connection: close", f"Content-Length: {length}")
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        client.send(head("POST", f"/read-big/{SIZE}", *fields))
        other.get("/hello")
        with stopped(server):
            client.send(b"c" * length + JUNK)
        other.get("/hello")
        take_all(client)


@interfaces
@pytest.mark.parametrize("sent", [head("GET", "/hello"), JUNK], ids=["request", "junk"])
def test_what_is_sent_before_the_response_is_read(
    start: Start, interface: str, sent: bytes
) -> None:
    server = start(*APPLICATION[interface])
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        client.send(request())
        other.get("/hello")
        client.send(sent)
        other.get("/hello")
        take_all(client)


@interfaces
def test_what_is_sent_when_all_of_the_response_has_left(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        client.send(request())
        reply = client.read_head()
        assert (reply.get("content-length"), reply.is_last) == (str(SIZE), True)
        take(client, MOST)
        other.get("/hello")
        client.send(head("GET", "/hello"))
        take(client, SIZE - MOST)
        assert client.take(1) == b""


def late(server: Server, path: str) -> Connection:
    """Connect and send half a head, so that a draining server waits for the rest."""
    client = server.connect()
    client.get("/hello")
    client.send(head("GET", path)[:-2])
    return client


def complete(client: Connection) -> None:
    """Send the other half, and read the response."""
    with client:
        client.send(b"\r\n")
        assert client.read().is_last


@pytest.mark.parametrize("interface", ["native", "asgi", "wsgi"])
def test_a_client_that_goes_on_asking_while_the_server_drains(start: Start, interface: str) -> None:
    server = start(*APPLICATION[interface])
    with connect(server, RECEIVE_BUFFER_BYTES) as client, server.connect() as other:
        client.send(head("GET", f"/held/{SIZE}"))
        wait_held(other)
        releasing, asking = late(server, "/release"), late(server, "/hello")
        server.signal(signal.SIGTERM)
        wait_until(lambda: other.get("/hello").is_last)
        client.send(head("GET", "/hello"))
        complete(releasing)
        reply = client.read_head()
        assert reply.get("content-length") == str(SIZE)
        take(client, MOST)
        client.send(head("GET", "/hello"))
        complete(asking)
        client.send(head("GET", "/hello"))
        take(client, SIZE - MOST)
        while not reply.is_last:
            reply = client.read()
            assert reply.content == b"hello"
    assert server.wait() == 0
