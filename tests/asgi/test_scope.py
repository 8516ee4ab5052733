"""The scope of a request (points 1 to 11)."""

from __future__ import annotations

import ast
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from support.client import Connection, Reply
from support.loops import Serving
from support.request import head
from support.server import Server, Start

pytestmark = pytest.mark.slow

APP = "asgi/scopes.py"

EXTENSIONS = {"http.response.early_hint", "http.response.trailers"}
"""Those that are offered without being asked for."""


def scope_of(reply: Reply) -> dict[str, Any]:
    """Read the scope that a response shows."""
    scope: dict[str, Any] = ast.literal_eval(reply.content.decode())
    return scope


def scope_for(client: Connection, request: bytes) -> dict[str, Any]:
    """Send a request and give its scope."""
    client.send(request)
    return scope_of(client.read())


def test_1_a_scope_says_what_was_asked(client: Connection, server: Server) -> None:
    scope = scope_of(client.get("/x%20y?q=%20&r", "X-A: 1"))
    scope.pop("extensions", None)
    assert scope.pop("state").keys() == {"shared", "plain"}
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "root_path": "",
        "path": "/x y",
        "raw_path": b"/x%20y",
        "query_string": b"q=%20&r",
        "headers": [(b"host", b"test"), (b"x-a", b"1")],
        "client": client.socket.getsockname(),
        "server": server.address,
    }


def test_1_http_1_0_is_said_in_full(client: Connection) -> None:
    scope = scope_for(client, b"GET /old HTTP/1.0\r\n\r\n")
    assert (scope["http_version"], scope["path"], scope["headers"]) == ("1.0", "/old", [])


def test_1_the_version_is_each_requests_own(client: Connection) -> None:
    for number in ("1.1", "1.0", "1.0", "1.1", "1.1", "1.0"):
        field_lines = "Host: test\r\nConnection: keep-alive\r\n"
        scope = scope_for(client, f"GET / HTTP/{number}\r\n{field_lines}\r\n".encode())
        assert scope["http_version"] == number


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PURGE", "M-SEARCH", "get"])
def test_1_the_method_is_upper_case(client: Connection, method: str) -> None:
    assert scope_for(client, head(method, "/"))["method"] == method.upper()


PATHS = {
    "/": "/",
    "/x%20y": "/x y",
    "/x+y": "/x+y",
    "/%252F": "/%2F",
    "/a%2Fb": "/a/b",
    "/%C3%A9%F0%9F%8E%88": "/\u00e9\U0001f388",
    "/%c3%a9": "/\u00e9",
    "/%FF": "/\ufffd",
    "/a%C3/b": "/a\ufffd/b",
    "/a/../b//c/.": "/a/../b//c/.",
    "/a;b=c,d": "/a;b=c,d",
    "//a": "//a",
    "/%00": "/\0",
}


@pytest.mark.parametrize(("sent", "path"), PATHS.items())
def test_2_the_path_is_decoded_once_and_3_the_raw_path_is_what_was_sent(
    client: Connection, sent: str, path: str
) -> None:
    scope = scope_of(client.get(sent + "?query"))
    assert (scope["path"], scope["raw_path"]) == (path, sent.encode())


def test_3_the_raw_path_of_an_absolute_target_is_its_path(client: Connection) -> None:
    scope = scope_for(client, head("GET", "http://test/a%20b?c"))
    assert (scope["path"], scope["raw_path"]) == ("/a b", b"/a%20b")


@pytest.mark.parametrize("target", ["*", "http://test"])
def test_2_the_path_of_asterisk_form_is_not_the_root(client: Connection, target: str) -> None:
    scope = scope_for(client, head("OPTIONS", target))
    assert (scope["method"], scope["path"], scope["raw_path"]) == ("OPTIONS", "*", b"*")


QUERIES = {"": b"", "?": b"", "?a=b": b"a=b", "?a%20b+c": b"a%20b+c", "?a?b": b"a?b", "??": b"?"}


@pytest.mark.parametrize(("sent", "query"), QUERIES.items())
def test_4_the_query_is_what_was_sent(client: Connection, sent: str, query: bytes) -> None:
    scope = scope_of(client.get("/path" + sent))
    assert (scope["path"], scope["query_string"]) == ("/path", query)


def test_5_the_root_path_is_empty_where_nothing_is_mounted(client: Connection) -> None:
    scope = scope_of(client.get("/a/b"))
    assert (scope["root_path"], scope["path"]) == ("", "/a/b")


def test_6_headers_are_lower_case_trimmed_and_in_order(client: Connection) -> None:
    lines = [b"X-A:  1 \t", b"x-b:", b"X-a: 2,  3", b"X-A: 1", b"X-Latin: \xe9 x", b"A_b: c"]
    request = b"GET / HTTP/1.1\r\nHost: test\r\n" + b"\r\n".join([*lines, b"", b""])
    expected = [
        (b"host", b"test"),
        (b"x-a", b"1"),
        (b"x-b", b""),
        (b"x-a", b"2,  3"),
        (b"x-a", b"1"),
        (b"x-latin", b"\xe9 x"),
        (b"a_b", b"c"),
    ]
    assert scope_for(client, request)["headers"] == expected
    assert scope_for(client, request)["headers"] == expected


def test_6_headers_are_those_of_each_request(client: Connection) -> None:
    for value in ("1", "1", "2", "1"):
        accept = scope_of(client.get("/", f"Accept: {value}"))["headers"][1]
        assert accept == (b"accept", value.encode())
        assert scope_of(client.get("/", f"Cookie: {value}"))["headers"][1][1] == value.encode()


NAMES = ("X-A", "Accept", "accept", "Accept-Language", "TE", "Cookie", "Authorization")
VALUES = ("", "1", "2", "1, 2", "v" * 600)
SECTIONS = strategies.lists(
    strategies.lists(
        strategies.tuples(strategies.sampled_from(NAMES), strategies.sampled_from(VALUES)),
        max_size=40,
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(sections=SECTIONS)
def test_6_headers_are_those_of_each_request_whatever_came_before(
    server: Server, sections: list[list[tuple[str, str]]]
) -> None:
    with server.connect() as client, server.connect() as other:
        for number, section in enumerate(sections):
            lines = [f"{name}: {value}" for name, value in section]
            scope = scope_of((other if number % 3 == 2 else client).get("/", *lines))
            expected = [(name.lower().encode(), value.encode()) for name, value in section]
            assert scope["headers"] == [(b"host", b"test"), *expected]


def test_8_addresses_of_ipv6(start: Start, loop: str) -> None:
    server = start(APP, "--bind", "[::1]:0", "--loop", loop)
    assert isinstance(server.address, tuple)
    with socket.create_connection(server.address) as stream:
        stream.sendall(head("GET", "/", "Connection: close"))
        own = stream.getsockname()
        reply = b"".join(iter(lambda: stream.recv(65536), b""))
    scope = ast.literal_eval(reply.partition(b"\r\n\r\n")[2].decode())
    assert (scope["client"], scope["server"]) == (own[:2], server.address)


def local_scope(start: Start, loop: str, path: Path) -> dict[str, Any]:
    """Return the scope of a request over a UNIX socket."""
    server = start(APP, "--uds", str(path), "--loop", loop)
    with server.connect() as client:
        return scope_of(client.get("/"))


def test_8_a_client_on_a_unix_socket_has_no_address(
    start: Start, loop: str, tmp_path: Path
) -> None:
    assert local_scope(start, loop, tmp_path / "socket")["client"] is None


def test_8_the_server_on_a_unix_socket_is_its_path(start: Start, loop: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert tuple(local_scope(start, loop, path)["server"]) == (str(path), None)


def without_state(scope: dict[str, Any]) -> dict[str, Any]:
    """Leave out what requests share on purpose."""
    return {name: value for name, value in scope.items() if name != "state"}


def test_9_what_a_request_changes_in_its_scope_the_next_does_not_see(client: Connection) -> None:
    first, second = (scope_of(client.get("/", "X-A: 1")) for _ in range(2))
    assert without_state(first) == without_state(second)
    assert "changed" not in repr(second)


def test_9_nor_does_one_of_the_same_batch_or_of_another_connection(
    client: Connection, server: Server
) -> None:
    client.send(head("GET", "/") * 3)
    scopes = [scope_of(client.read()) for _ in range(3)]
    with server.connect() as other:
        scopes.append({**scope_of(other.get("/")), "client": scopes[0]["client"]})
    assert all(without_state(scope) == without_state(scopes[0]) for scope in scopes)
    assert "changed" not in repr(scopes)


def test_10_the_state_is_a_shallow_copy_of_the_lifespans(client: Connection) -> None:
    before = scope_for(client, head("ONCE", "/"))["state"]
    after = scope_of(client.get("/"))["state"]
    assert before["plain"] == after["plain"] == "as it was"
    assert after["shared"] == [*before["shared"], "ONCE"]
    assert after.keys() == {"shared", "plain"}


def test_10_without_a_state_of_the_lifespan_there_is_an_empty_one_or_none(
    serving: Serving,
) -> None:
    with serving("asgi/tasks.py").connect() as client:
        assert client.get("/state").content in (b"{}", b"None")


def test_11_extensions_are_those_that_work(client: Connection) -> None:
    extensions = scope_of(client.get("/")).get("extensions") or {}
    assert extensions.keys() <= EXTENSIONS
    assert all(value == {} for value in extensions.values())
