"""What every response carries, which have no content, and what an application cannot get out."""

import email.utils
import http
import time

import pytest

from bolide.errors import reason_phrase
from support.client import Connection
from support.request import head
from support.server import APPLICATIONS, Server, Start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> object:
    """Return one server for all tests of this file."""
    running = Server(["protocol.py", "--port", "0"], APPLICATIONS).wait_ready()
    yield running
    running.close()


def test_date_and_server_are_sent(server: Server) -> None:
    with server.connect() as client:
        for target in ("/", "/status/404", "/stream/1", "/wait/1", "/nowhere"):
            before = time.time()
            reply = client.get(target)
            assert reply.get("server") == "bolide"
            sent = email.utils.parsedate_to_datetime(reply.get("date") or "")
            assert before - 2 < sent.timestamp() < time.time() + 1


def test_the_server_field_can_be_left_out(start: Start) -> None:
    with start("protocol.py", "--no-server-header").connect() as client:
        for target in ("/", "/status/404", "/stream/1", "/nowhere"):
            reply = client.get(target)
            assert reply.get("server") is None
            assert reply.get("date")


def test_every_registered_status_has_its_reason_phrase(server: Server) -> None:
    """As they are called since RFC 9110, and in `http` since Python 3.13."""
    for status in map(int, http.HTTPStatus):
        if status >= 200:
            with server.connect() as client:
                client.send(head("GET", f"/status/{status}", "Connection: close"))
                line, _, _ = client.read_to_end().partition(b"\r\n")
            phrase = reason_phrase(status)
            assert phrase and line.decode() == f"HTTP/1.1 {status} {phrase}"


@pytest.mark.parametrize(
    "target", ["/", "/status/404", "/stream/3", "/stream-later/3", "/wait/1", "/big/100000", "/no"]
)
def test_the_response_to_head_has_the_fields_and_no_content(server: Server, target: str) -> None:
    with server.connect() as client:
        for _ in range(2):
            client.send(f"HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            to_head = client.read("HEAD")
            reply = client.get(target)
            assert to_head.status == reply.status
            assert to_head.get("content-length") == reply.get("content-length")


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_content(server: Server, status: int) -> None:
    with server.connect() as client:
        reply = client.get(f"/status/{status}")
        assert (reply.status, reply.get("transfer-encoding")) == (status, None)
        assert status == 304 or reply.get("content-length") is None
        assert client.get("/").content == b"hello"


def test_a_coding_of_the_handlers_is_left_out(server: Server) -> None:
    with server.connect() as client:
        reply = client.get("/nonsense/coding")
        assert (reply.status, reply.content) == (200, b"text")
        assert (reply.get("transfer-encoding"), reply.get("content-length")) == (None, "4")


@pytest.mark.parametrize(
    "kind",
    ["type", "status", "split", "nul", "name", "length"],
)
def test_a_nonsensical_response_becomes_500(server: Server, kind: str) -> None:
    with server.connect() as client:
        reply = client.get(f"/nonsense/{kind}")
        assert reply.status == 500
        assert not {"x", "set-cookie"} & {name for name, _ in reply.fields}
        assert client.get("/").content == b"hello"


def test_an_error_before_the_response_is_500_and_the_connection_goes_on(server: Server) -> None:
    with server.connect() as client:
        assert client.get("/raises").status == 500
        assert client.get("/").content == b"hello"


@pytest.mark.parametrize("target", ["/cut", "/cut-later"])
def test_an_error_inside_a_response_cuts_it(server: Server, target: str) -> None:
    with server.connect() as client:
        with pytest.raises(AssertionError, match="the connection ended"):
            client.get(target)


@pytest.mark.parametrize("target", ["/cut", "/cut-later"])
def test_a_cut_response_that_ends_with_the_connection_ends_with_a_reset(
    server: Server, target: str
) -> None:
    with server.connect() as client:
        client.send(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            client.read()


def test_http_1_0_keep_alive_as_ab_asks_for_it(server: Server) -> None:
    request = b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\nUser-Agent: ab\r\n\r\n"
    with server.connect() as client:
        for _ in range(3):
            client.send(request)
            reply = client.read()
            assert (reply.get("connection"), reply.get("content-length")) == ("keep-alive", "5")
        client.send(request.replace(b"Keep-Alive", b"close"))
        assert client.read().is_last
        assert client.is_closed()


@pytest.mark.parametrize(
    "content",
    [
        b"\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_options_of_the_server_as_a_whole_may_have_content(server: Server, content: bytes) -> None:
    with server.connect() as client:
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n" + content)
        reply = client.read("OPTIONS")
        assert (reply.status, reply.content, reply.get("content-length")) == (204, b"", None)
        assert "GET, HEAD, OPTIONS" in (reply.get("allow") or "")
        if not reply.is_last:
            assert client.get("/").content == b"hello"


def test_pipelined_responses_come_in_order(server: Server) -> None:
    targets = [
        "/wait/60",
        "/",
        "/wait/1",
        "/stream/2",
        "/stream-later/2",
        "/wait/30",
        "/status/404",
    ]
    requests = "".join(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n" for target in targets)
    with server.connect() as client:
        client.send(requests.encode())
        sizes = [len(client.read().content) for _ in targets]
    assert sizes == [9, 5, 8, 2000, 2000, 9, 7]


def test_a_pending_request_runs_beside_others_but_not_beside_a_post(server: Server) -> None:
    with server.connect() as client:
        # None of the four is responded to before all are being handled.
        client.send(head("GET", "/together/4") * 4)
        assert [client.read().content for _ in range(4)] == [b"together"] * 4
        client.send(head("GET", "/wait/150") + head("POST", "/early"))
        assert [client.read().content for _ in range(2)] == [b"waited 150", b"early"]


def test_short_content_that_nobody_reads_is_discarded(server: Server) -> None:
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    head = f"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {len(hidden)}\r\n\r\n".encode()
    with server.connect() as client:
        for cut in range(0, len(hidden) + 1, 7):
            client.send(head + hidden[:cut])
            assert client.read().content == b"early"
            client.send(hidden[cut:])
        assert client.get("/").content == b"hello"


def test_long_content_that_nobody_reads_ends_the_connection(server: Server) -> None:
    with server.connect() as client:
        client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n")
        client.send(b"x" * 900_000)
        reply = client.read()
        assert (reply.content, reply.is_last) == (b"early", True)
        assert client.is_closed()


@pytest.mark.parametrize("target", ["/read", "/read-later"])
def test_a_continue_comes_when_the_handler_reads(server: Server, target: str) -> None:
    fields = "Expect: 100-continue\r\nContent-Length: 3"
    with server.connect() as client:
        client.send(f"POST {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode())
        assert client.read_head().status == 100
        client.send(b"abc")
        assert client.read().content == b"3"
        client.send(f"POST /early HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode())
        reply = client.read()
        assert (reply.content, reply.interim, reply.is_last) == (b"early", [], True)
        assert client.is_closed()


def test_a_half_closed_connection_has_its_response(server: Server) -> None:
    with Connection(server.address) as client:
        client.send(b"GET /wait/50 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.socket.shutdown(1)
        assert [client.read().content for _ in range(2)] == [b"waited 50", b"hello"]
        assert client.is_closed()
