"""What a worker remembers of clients after an allocation for a request has failed.

An application lets one allocation of CPython fail after another, while the scope or the environ of
the next request is made. Whatever failed, no later request sees anything of that one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from support.server import Server, Start

pytest.importorskip("_testcapi")
pytestmark = pytest.mark.slow

Expected = Callable[[str, str, list[str]], dict[str, Any]]

KIND = ["Host: test", "User-Agent: a"]
"""What all send: they count as clients of one kind, of which the last section is remembered."""
KEPT, CLOSED = ("Connection: keep-alive", "Connection: close")
USUAL = [*KIND, KEPT, "Accept: usual", "Accept-Language: usual", "Cookie: usual"]
FAILING = [*KIND, CLOSED, "Accept: failing", "Accept-Language: failing", "Cookie: failing"]
ALIKE = [*KIND, KEPT, "Accept: failing", "Accept-Language: failing", "Cookie: other"]
FORWARDED = ["X-Forwarded-Proto: https", "X-Forwarded-Prefix: /prefix"]
LAST_ALLOCATION = 60
"""More than are needed until the application is called."""


def request(target: str, version: str, lines: list[str]) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/{version}", *lines, "", ""]).encode()


def scope(target: str, version: str, lines: list[str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    pairs = [line.encode().split(b": ") for line in lines]
    return {
        "type": "http",
        "http_version": version,
        "method": "GET",
        "scheme": "http",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower(), value) for name, value in pairs],
    }


def environ(target: str, version: str, lines: list[str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    pairs = [line.split(": ") for line in lines]
    return {
        "SERVER_PROTOCOL": f"HTTP/{version}",
        "REQUEST_METHOD": "GET",
        "REMOTE_ADDR": "127.0.0.1",
        "SCRIPT_NAME": "",
        "wsgi.url_scheme": "http",
        "PATH_INFO": path,
        "RAW_URI": target,
        "REQUEST_URI": target,
        "QUERY_STRING": query,
        **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in pairs},
    }


WAYS: dict[str, tuple[str, tuple[str, ...], Expected]] = {
    "asgi": ("memory/refused_asgi.py", ("--eager-tasks", "on"), scope),
    "wsgi": ("memory/refused_wsgi.py", ("--threads", "1"), environ),
    "wsgi-pool": ("memory/refused_wsgi.py", ("--threads", "8"), environ),
}


def fail(server: Server, number: int, failing: bytes) -> bool:
    """Let an allocation of a request fail; return whether that has failed too."""
    with server.connect() as client:
        # Of one pass: nothing else runs between the two.
        client.send(request(f"/refuse/{number}?usual", "1.1", USUAL) + failing)
        has_failed = client.read_to_end().count(b" 200 OK\r\n") < 2
    if not has_failed:
        # Two threads may have taken them the other way round: then one of this request fails.
        with server.connect() as client:
            assert client.get("/over").status in (200, 500)
    return has_failed


def check(server: Server, expected: Expected, sent: list[tuple[str, str, list[str]]]) -> None:
    """Check that requests which resemble the last ones are seen as they are."""
    with server.connect() as client:
        for each in sent:
            client.send(request(*each))
            shown = ast.literal_eval(client.read().content.decode())
            wanted = expected(*each)
            unlike = {name for name in wanted if shown.get(name) != wanted[name]}
            of_clients = {name for name in shown if name.startswith("HTTP_")}
            assert (unlike, of_clients - wanted.keys()) == (set(), set()), shown


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("forwarded", [[], FORWARDED], ids=["direct", "forwarded"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_request_that_lacked_memory_is_seen_by_another(
    start: Start, way: str, forwarded: list[str], version: str
) -> None:
    target, options, expected = WAYS[way]
    server = start(target, *options)
    workers = server.workers()
    failing = request("/failing?failing", version, [*FAILING, *forwarded])
    usual = ("/usual?usual", "1.1", USUAL)
    alike = ("/failing?failing", version, ALIKE)
    failed = 0
    for number in range(LAST_ALLOCATION):
        for sent in ([usual, alike], [alike, usual]):
            failed += fail(server, number, failing)
            check(server, expected, sent)
    assert 10 < failed < 2 * LAST_ALLOCATION
    assert server.workers() == workers
