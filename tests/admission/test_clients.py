"""Limits for each client: its requests per second, and its connections."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import pytest

from support.client import Connection
from support.h2 import Client, Message, headers, request_fields, reset
from support.management import Managed
from support.server import Server, Start, command
from support.waiting import wait_until
from support.websocket import connect

pytestmark = pytest.mark.slow

RATE = ("--client-requests-per-s-max", "1", "--client-burst-max", "3")
OPEN = ("--trusted-proxies", "none")
LIMITED = 'bolide_requests_refused_total{cause="client_rate"}'
LEDGER = {"LEDGER": "/dev/null"}
SURPLUS = 'bolide_connections_refused_total{cause="client"}'


def statuses(client: Connection, count: int, *fields: str) -> list[int]:
    return [client.get("/", *fields).status for _ in range(count)]


def test_a_client_over_its_rate_gets_429(start: Start) -> None:
    managed = Managed(start, "basic.py", *RATE, *OPEN)
    with managed.server.connect() as client, managed.server.connect() as other:
        assert statuses(client, 3) == [200, 200, 200]
        reply = client.get("/")
        assert (reply.status, reply.get("retry-after"), reply.is_last) == (429, "1", False)
        # Another connection of the same address does not help, and neither does content.
        assert other.post("/echo", b"content").status == 429
        assert managed.metrics()[LIMITED] == 2
    managed.server.wait_line(r"refused 1 request with 429, the last of 127\.0\.0\.1 \(client_req")
    address = managed.server.address
    with Connection(address, source="127.0.0.2") as another:
        assert another.get("/").status == 200
        wait_until(lambda: another.get("/").status == 429)
        wait_until(lambda: another.get("/").status == 200)


def test_workers_count_together(start: Start) -> None:
    options = ("--client-requests-per-s-max", "1", "--client-burst-max", "20", "--workers", "2")
    server = start("basic.py", *options, *OPEN)
    got: list[int] = []
    for _ in range(40):
        with server.connect() as client:
            got.append(client.get("/").status)
    assert 20 <= got.count(200) <= 26, got


def test_streams_and_handshakes_are_requests(start: Start) -> None:
    server = start("basic.py", *RATE, *OPEN, "--h2c")
    with Client(server.connect()) as client:
        replies = [client.request(stream, "/") for stream in range(1, 10, 2)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
        assert replies[-1].get("retry-after") in ("1", "2")
    with connect(server) as socket:
        socket.send(
            b"GET /echo HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert socket.read().status == 429


def test_the_client_is_the_one_that_a_trusted_proxy_names(start: Start) -> None:
    server = start("basic.py", *RATE)
    with server.connect() as proxy:
        assert statuses(proxy, 9) == [200] * 9  # the proxy itself is not limited
        one = "X-Forwarded-For: 192.0.2.1"
        assert statuses(proxy, 4, one) == [200, 200, 200, 429]
        # What the client itself has claimed makes no other client of it.
        assert statuses(proxy, 1, "X-Forwarded-For: 192.0.2.9, 192.0.2.1") == [429]
        assert statuses(proxy, 1, "X-Forwarded-For: 192.0.2.2") == [200]
        six = [f"X-Forwarded-For: 2001:db8::{number}" for number in range(4)]
        assert [proxy.get("/", each).status for each in six] == [200, 200, 200, 429]
        assert statuses(proxy, 1, "X-Forwarded-For: 2001:db8:0:1::") == [200]
    with Connection(server.address, source="127.0.0.2") as client:
        assert client.get("/").status == 200


def test_clients_of_a_proxy_that_cannot_be_read_are_one(start: Start) -> None:
    options = ("--client-connections-max", "1", "--forwarded-fields", "forwarded,for")
    server = start("basic.py", *RATE, *options)
    spoiled = ('Forwarded: for="open, for=192.0.2.1', 'Forwarded: for=;"', "X-Forwarded-For: a b")
    with server.connect() as proxy:
        assert [proxy.get("/", each).status for each in (*spoiled, spoiled[0])] == [200] * 3 + [429]
        assert statuses(proxy, 1, "Forwarded: for=192.0.2.1") == [200]
        assert statuses(proxy, 9) == [200] * 9  # the proxy itself is not limited


def test_clients_that_a_proxy_does_not_disclose_are_not_limited(start: Start) -> None:
    server = start("basic.py", *RATE, "--forwarded-fields", "forwarded,for")
    with server.connect() as proxy:
        for field in ("Forwarded: for=unknown", "Forwarded: for=_a", "X-Forwarded-For: unknown"):
            assert statuses(proxy, 4, field) == [200] * 4
    server = start("basic.py", *RATE, "--proxy-protocol", "--client-connections-max", "1")
    with server.connect() as one, server.connect() as other:
        for check in (one, other):
            check.send(b"PROXY UNKNOWN\r\n")
            assert statuses(check, 4) == [200] * 4


def test_an_untrusted_field_makes_no_other_client(start: Start) -> None:
    server = start("basic.py", *RATE, *OPEN)
    with server.connect() as client:
        got = [client.get("/", f"X-Forwarded-For: 192.0.2.{each}").status for each in range(5)]
        assert got == [200, 200, 200, 429, 429]


def test_the_client_of_a_proxy_header_is_limited(start: Start) -> None:
    options = ("--proxy-protocol", "--client-connections-max", "1")
    server = start("basic.py", *RATE, *options)

    def header(client: str) -> bytes:
        return f"PROXY TCP4 {client} 192.0.2.100 1000 80\r\n".encode()

    with ExitStack() as stack:
        one, other, surplus = (stack.enter_context(server.connect()) for _ in range(3))
        one.send(header("192.0.2.1"))
        assert statuses(one, 4) == [200, 200, 200, 429]
        other.send(header("192.0.2.2"))
        assert statuses(other, 1) == [200]
        surplus.send(header("192.0.2.1"))
        assert surplus.is_closed()


def test_a_client_with_too_many_connections_is_refused(start: Start) -> None:
    managed = Managed(start, "basic.py", "--client-connections-max", "2", *OPEN)
    with ExitStack() as stack:
        clients = [stack.enter_context(managed.server.connect()) for _ in range(2)]
        assert [client.get("/").status for client in clients] == [200, 200]
        with managed.server.connect() as surplus:
            reply = surplus.read()
            assert (reply.status, reply.get("retry-after"), reply.is_last) == (503, "1", True)
        with Connection(managed.server.address, source="127.0.0.2") as other:
            assert other.get("/").status == 200
        wait_until(lambda: managed.metrics()[SURPLUS] == 1)
        managed.server.wait_line(r"refused 1 connection over client_connections_max.* 127\.0\.0\.1")
        clients[0].socket.close()

        def is_served() -> bool:
            with managed.server.connect() as again:
                again.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
                return again.read().status == 200

        wait_until(is_served)


def test_trusted_proxies_may_have_many_connections(start: Start) -> None:
    server = start("basic.py", "--client-connections-max", "1")
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(5)]
        assert [client.get("/").status for client in clients] == [200] * 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*RATE, "--trusted-proxies", "*"), "client_requests_per_s_max does not go with"),
        ((*RATE, "--trusted-proxies", "::/0"), "does not go with trusted_proxies ::/0"),
        (("--client-burst-max", "5"), "client_burst_max needs client_requests_per_s_max"),
        (("--client-ipv6-prefix-bits", "129"), "give 0 to 128"),
        (("--client-requests-per-s-max", "-1"), "give 0 to"),
    ],
)
def test_options_that_make_no_sense(
    options: tuple[str, ...], message: str, tmp_path: object
) -> None:
    from support.server import APPLICATIONS

    code, _, errors = command("serve", "basic.py", *options, cwd=APPLICATIONS)
    assert code == 2
    assert message in errors
    assert len(errors.splitlines()) == 1


def test_what_is_pipelined_has_its_response_in_its_place(start: Start) -> None:
    server = start("basic.py", "--client-requests-per-s-max", "1", "--client-burst-max", "2", *OPEN)
    with server.connect() as client:
        one = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
        post = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nGET "
        chunked = b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(one * 2 + post * 20 + one * 20 + chunked + b"4\r\nGET \r\n0\r\n\r\n" + one)
        assert [client.read().status for _ in range(42)] == [200] * 2 + [429] * 40
        reply = client.read()
        # Its content has no known length, so nothing after it is read.
        assert (reply.status, reply.is_last) == (429, True)
        assert client.is_closed()


def test_refusals_follow_the_rules_of_http(start: Start) -> None:
    server = start("basic.py", "--client-requests-per-s-max", "1", "--client-burst-max", "1", *OPEN)
    with server.connect() as client:
        assert client.get("/").status == 200
        client.send(b"HEAD / HTTP/1.1\r\nHost: test\r\n\r\n")
        reply = client.read("HEAD")
        assert (reply.status, reply.get("retry-after"), reply.is_last) == (429, "1", False)
        client.send(
            b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        reply = client.read()
        assert (reply.status, reply.interim, reply.is_last) == (429, [], True)
    with server.connect() as client:
        client.send(b"GET / HTTP/1.0\r\nHost: test\r\n\r\n")
        reply = client.read()
        assert (reply.status, reply.is_last) == (429, True)
        assert client.is_closed()


WITHOUT_MEMORY = """
import resource
from bolide import _core
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (1 << 19)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    _core.share_client_rates()
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _core.share_client_rates()
    print("refused, then shared")
"""


def test_without_memory_for_rates_nothing_is_served_unlimited() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused, then shared\n"


NAMED = "X-Forwarded-For: 192.0.2.{}"


def test_websockets_are_counted_for_the_client_that_a_proxy_names(start: Start) -> None:
    managed = Managed(start, "admission/ledger.py", "--client-connections-max", "2", env=LEDGER)
    server = managed.server
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(server)) for _ in range(3)]
        for socket, client in zip(sockets, (1, 1, 2), strict=True):
            socket.open("/", NAMED.format(client))
        with connect(server) as surplus:
            surplus.ask("/", NAMED.format(1))
            reply = surplus.read()
            assert (reply.status, reply.get("retry-after"), reply.is_last) == (503, "1", True)
        assert managed.metrics()[SURPLUS] == 1
        server.wait_line(r"refused 1 connection over client_connections_max.* 192\.0\.2\.1")
        # Its requests are the proxy's connections.
        with server.connect() as proxy:
            assert proxy.get("/sleep", NAMED.format(1)).status == 200
        sockets[0].socket.close()
        wait_until(lambda: opens(server, NAMED.format(1)))


def opens(server: Server, field: str) -> bool:
    """Return whether a WebSocket is opened, which is closed then."""
    with connect(server) as socket:
        socket.ask("/", field)
        return socket.read_head().status == 101


def test_websockets_on_streams_are_counted_for_their_clients(start: Start) -> None:
    """A proxy opens those of several clients on one connection."""
    server = start("admission/ledger.py", "--client-connections-max", "1", "--h2c", env=LEDGER)
    with Client(server.connect()) as client:
        client.ping()
        for stream, name, status in ((1, 1, 200), (3, 2, 200), (5, 1, 503)):
            client.send(opening(stream, name))
            while not client.messages.get(stream, Message()).status:
                client.read()
            assert client.messages[stream].status == status
        client.send(reset(1))
        client.ping()
        client.send(opening(7, 1))
        while not client.messages.get(7, Message()).status:
            client.read()
        assert client.messages[7].status == 200


def opening(stream: int, client: int) -> bytes:
    """Return a handshake of a WebSocket on a stream."""
    fields = request_fields("CONNECT", "/")
    fields.insert(1, (b":protocol", b"websocket"))
    named = (b"x-forwarded-for", f"192.0.2.{client}".encode())
    version = (b"sec-websocket-version", b"13")
    return headers(stream, [*fields, version, named], is_last=False)
