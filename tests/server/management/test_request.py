"""Requests to the management listener: what is malformed, and what a browser may have caused."""

from __future__ import annotations

import time

import pytest

from bolide.server.management.request import RefusedError, Reply, Request, check, parse, sentence

LOCAL, REMOTE = "127.0.0.1", "192.0.2.1"


def test_a_request_is_parsed() -> None:
    head = b"GET /metrics?a=b HTTP/1.1\r\nHost: localhost:9000\r\nX:\r\nAccept:  text/plain \t"
    fields = {"host": "localhost:9000", "x": "", "accept": "text/plain"}
    assert parse(head) == Request("GET", "/metrics", fields)
    assert parse(b"HEAD / HTTP/1.0") == Request("HEAD", "/", {})


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET / HTTP/2.0\r\nHost: a", 400),
        (b"GET http://a/ HTTP/1.1\r\nHost: a", 400),
        (b"get / HTTP/1.1\r\nHost: a", 400),
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded", 400),
        (b"GET / HTTP/1.1\r\nHost : a", 400),
        (b"GET / HTTP/1.1\nHost: a", 400),
        (b"GET / HTTP/1.1\r\nHost: a\0b", 400),
        (b"GET / HTTP/1.1\r\nHost: a\x7fb", 400),
        (b"GET / HTTP/1.1\r\nHost", 400),
        (b"GET / HTTP/1.1\r\n: a", 400),
        (b"POST /stop HTTP/1.1\r\nHost: a\r\nContent-Length: 1", 413),
        (b"POST /stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", 413),
    ],
)
def test_a_malformed_request_or_content_is_refused(head: bytes, status: int) -> None:
    with pytest.raises(RefusedError) as refused:
        parse(head)
    assert refused.value.status == status


def test_a_long_malformed_line_takes_linear_time() -> None:
    # Linear: 20 ms. Quadratic: minutes.
    head = b"GET / HTTP/1.1\r\nHost: a\r\nx:" + b" " * 1_000_000 + b"\x01"
    before = time.process_time()
    with pytest.raises(RefusedError):
        parse(head)
    assert time.process_time() - before < 10


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9000",
        "localhost",
        "LOCALHOST:9000",
        "[::1]",
        "[::1]:9000",
        "10.1.2.3:80",
    ],
)
def test_an_address_or_localhost_is_a_host_of_this_machine(host: str) -> None:
    check(Request("GET", "/", {"host": host}), LOCAL, LOCAL)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "example.org",
        "example.org:9000",
        "localhost.example.org",
        "127.0.0.1.example.org",
        "[::1",
        "::1]",
    ],
)
def test_a_name_that_may_have_been_rebound_is_refused_at_every_tcp_address(host: str) -> None:
    request = Request("GET", "/", {"host": host})
    for client, server in ((LOCAL, LOCAL), (REMOTE, "10.0.0.1"), (REMOTE, "2001:db8::1")):
        for name in ("", "shop.example"):
            with pytest.raises(RefusedError) as refused:
                check(request, client, server, name)
            assert refused.value.status == 421
    check(request, "", "")  # no browser reaches a UNIX socket


@pytest.mark.parametrize("host", ["shop.example", "Shop.Example:9000"])
def test_the_host_of_the_option_is_accepted(host: str) -> None:
    check(Request("GET", "/", {"host": host}), REMOTE, "10.0.0.1", "shop.EXAMPLE")


def test_a_request_without_a_host_is_no_browsers() -> None:
    check(Request("GET", "/", {}), REMOTE, "10.0.0.1")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "field",
    [("origin", "http://127.0.0.1:9000"), ("origin", "null"), ("sec-fetch-site", "cross-site")],
)
def test_pages_of_browsers_are_refused(method: str, field: tuple[str, str]) -> None:
    fields = {"host": "127.0.0.1", "bolide-command": "1", field[0]: field[1]}
    with pytest.raises(RefusedError) as refused:
        check(Request(method, "/stop", fields), LOCAL, LOCAL)
    assert refused.value.status == 403


def test_a_page_that_a_person_opens_is_served() -> None:
    check(Request("GET", "/metrics", {"host": "localhost", "sec-fetch-site": "none"}), LOCAL, LOCAL)


@pytest.mark.parametrize(
    ("client", "fields", "is_allowed"),
    [
        (LOCAL, {"bolide-command": "1"}, True),
        ("::1", {"bolide-command": ""}, True),
        ("", {"bolide-command": "1"}, True),
        (LOCAL, {}, False),
        ("", {}, False),
        (REMOTE, {"bolide-command": "1"}, False),
        ("fe80::1%eth0", {"bolide-command": "1"}, False),
    ],
)
def test_commands_are_taken_from_this_machine_and_say_what_they_are(
    client: str, fields: dict[str, str], is_allowed: bool
) -> None:
    request = Request("POST", "/stop", {"host": "127.0.0.1", **fields})
    if is_allowed:
        check(request, client, client)
        return
    with pytest.raises(RefusedError) as refused:
        check(request, client, client)
    assert refused.value.status == 403


def test_a_response_is_framed() -> None:
    expected = (
        b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 3\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        b"Allow: POST\r\nConnection: close\r\n\r\n"
    )
    assert sentence(405, "no", Allow="POST").encoded("GET") == expected + b"no\n"
    assert Reply(405, b"no\n", fields={"Allow": "POST"}).encoded("HEAD") == expected
