"""The ids of requests: whose are kept, who gets them, and where they are written."""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxies.conftest import ON_INTERFACES
from support.h2 import Client
from support.server import Server, Start, command
from support.websocket_carriers import CARRIERS, SECURE, connect_by

pytestmark = pytest.mark.slow

ON = ("--request-id", "on")
SENT = (*ON, "--request-id-response")
NEW = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")
PATHS = ("/", "/later", "/streamed")
PROXYS = "Root=1-67891233-abcdef012345678912345678;Self=1"

Identify = Callable[..., Server]


@pytest.fixture
def identify(start: Start) -> Identify:
    """Return a function that serves an application of tests/applications/identified."""
    return lambda name, *options: start(f"identified/{name}.py", *options)


def id_of(seen: dict[str, Any]) -> str:
    """Return the id that an application has seen, in each place the same."""
    assert seen["fields"] == [seen["id"]]
    found: str = seen["id"]
    return found


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_every_request_has_a_new_id(identify: Identify, name: str) -> None:
    server = identify(name, *ON, "--h2c", "--workers", "2")
    ids = []
    for _ in range(4):
        with server.connect() as client, Client(server.connect()) as streams:
            for index, path in enumerate((*PATHS, "/")):
                ids.append(id_of(client.get(path).json()))
                message = streams.request(2 * index + 1, path)
                ids.append(id_of(json.loads(message.content)))
            ids.append(id_of(client.post("/", b"content").json()))
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
            client.send(b"b")
            ids.append(id_of(client.read().json()))
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            ids += [id_of(client.read().json()) for _ in range(3)]
    assert len({*ids}) == len(ids) == 4 * 13
    assert all(NEW.fullmatch(each) for each in ids)
    # Middlewares check this before they take an id.
    assert all(uuid.UUID(each).version == 4 and uuid.UUID(each).hex == each for each in ids)


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_without_the_option_there_are_none(identify: Identify, name: str) -> None:
    server = identify(name)
    with server.connect() as client:
        seen = client.get("/").json()
        assert (seen["id"], seen["fields"]) == (None, [])
        reply = client.get("/", "X-Request-ID: <a>")
        assert reply.json()["fields"] == ["<a>"]
        assert reply.get("x-request-id") is None


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_an_id_of_a_trusted_peer_is_kept_if_it_is_valid(identify: Identify, name: str) -> None:
    server = identify(name, *ON, "--h2c")
    with server.connect() as client, Client(server.connect()) as streams:
        for each in ("a", PROXYS, "x" * 128):
            for path in PATHS:
                assert id_of(client.get(path, f"x-request-id: {each}").json()) == each
        message = streams.request(1, "/", (b"x-request-id", PROXYS.encode()))
        assert id_of(json.loads(message.content)) == PROXYS
        for wrong in ("", "a b", 'a"', "a\\", "a,b", "<a>", "\xe4", "x" * 129):
            seen = client.get("/", f"X-Request-ID: {wrong}").json()
            assert NEW.fullmatch(id_of(seen)), wrong
        for lines in (("X-Request-ID: a", "X-Request-ID: a"), ("X_Request_ID: a",)):
            assert NEW.fullmatch(id_of(client.get("/", *lines).json())), lines


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_an_id_of_another_peer_is_replaced(identify: Identify, name: str) -> None:
    server = identify(name, *ON, "--trusted-proxies", "none", "--h2c")
    with server.connect() as client, Client(server.connect()) as streams:
        assert NEW.fullmatch(id_of(client.get("/", "X-Request-ID: a").json()))
        message = streams.request(1, "/", (b"x-request-id", b"a"))
        assert NEW.fullmatch(id_of(json.loads(message.content)))


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_a_response_has_the_id_of_its_request(identify: Identify, name: str) -> None:
    server = identify(name, *SENT, "--h2c")
    with server.connect() as client, Client(server.connect()) as streams:
        for index, path in enumerate((*PATHS, "/", "/")):
            reply = client.get(path)
            assert reply.get("x-request-id") == id_of(reply.json())
            message = streams.request(2 * index + 1, path)
            assert message.get("x-request-id") == id_of(json.loads(message.content))
        for path in ("/raise", "/missing"):
            assert client.get(path, "X-Request-ID: a").get("x-request-id") == "a"
        own = client.get("/own", "X-Request-ID: a")
        assert (own.get("x-request-id"), id_of(own.json())) == ("own", "a")
        assert streams.request(15, "/own").get("x-request-id") == "own"
        # Several in one turn, and one of a client that the next one must not get.
        client.send(b"GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        replies = [client.read() for _ in range(6)]
        assert [each.get("x-request-id") for each in replies] == [
            id_of(each.json()) for each in replies
        ]
        client.send(b"nonsense\r\n\r\n")
        assert client.read().get("x-request-id") is None


def test_the_bytes_of_a_response(identify: Identify) -> None:
    server = identify("on_native", "--request-id", "X-Trace", "--request-id-response")
    with server.connect() as client:
        client.send(b"GET /own HTTP/1.1\r\nHost: a\r\nx-trace: b\r\nConnection: close\r\n\r\n")
        date = rb"Date: [^\r]+\r\n"
        head = rb"HTTP/1.1 200 OK\r\nServer: bolide\r\n" + date + rb"X-Trace: b\r\n"
        received = client.read_to_end()
        assert re.match(head + rb"Content-Type: [^\r]+\r\nx-request-id: own\r\n", received), (
            received
        )


def test_a_refused_request_has_its_id(identify: Identify) -> None:
    server = identify("on_native", *SENT, "--body-bytes-max", "5")
    with server.connect() as client:
        reply = client.post("/whole", b"too long", "X-Request-ID: a")
        assert (reply.status, reply.get("x-request-id")) == (413, "a")


@pytest.mark.parametrize("name", ["on_native", "on_asgi"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_websocket_has_an_id(identify: Identify, name: str, carrier: str) -> None:
    server = identify(name, *ON, *(SECURE if "TLS" in carrier else ()))
    with connect_by(carrier, server) as socket:
        socket.open("/", "X-Request-ID: a")
        assert id_of(json.loads(socket.frame().content)) == "a"


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_messages_about_a_request_have_its_id(identify: Identify, name: str) -> None:
    server = identify(name, *ON, "--log-format", "json")
    with server.connect() as client:
        assert client.get("/raise", "X-Request-ID: a").status == 500
    line = json.loads(server.wait_line(r".*GET /raise \[a\].*")[0])
    assert (line["level"], line["logger"], line["request_id"]) == ("error", "bolide.error", "a")
    assert "RuntimeError: as expected" in line["exception"]
    assert line["message"].startswith("GET /raise [a]")
    others = [json.loads(each) for each in server.lines if "/raise" not in each]
    assert others and not any("request_id" in each for each in others)


def test_a_later_failure_has_its_id(identify: Identify) -> None:
    server = identify("on_asgi", *ON)
    with server.connect() as client:
        assert client.get("/raise-later", "X-Request-ID: a").status == 500
    server.wait_line(r"bolide\.error: GET /raise-later \[a\]: the application raised")


def test_a_slow_request_has_its_id(identify: Identify) -> None:
    server = identify("on_native", *ON, "--slow-request-ms", "50", "--log-format", "json")
    with server.connect() as client:
        client.get("/slow", "X-Request-ID: a")
    line = json.loads(server.wait_line(r".*GET /slow \[a\]: its response took.*")[0])
    assert line["request_id"] == "a"


def test_lines_of_the_access_log(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    given = (
        "--access-log",
        str(log),
        "--access-log-format",
        '{request_id} "{request_id}" {status}',
    )
    server = start("identified/on_native.py", *ON, *given)
    with server.connect() as client:
        client.get("/", "X-Request-ID: a")
        found = client.get("/later").json()["id"]
        client.send(b"nonsense\r\n\r\n")
        client.read()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    lines = ['a "a" 200', f'{found} "{found}" 200', '- "-" 400']
    assert log.read_text("ascii").splitlines() == lines


def test_json_lines_of_the_access_log(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    given = ("--access-log", str(log), "--access-log-format", "json")
    server = start("identified/on_native.py", *ON, *given)
    with server.connect() as client:
        client.get("/", "X-Request-ID: a")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert json.loads(log.read_text("ascii"))["request_id"] == "a"


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_ids_go_with_what_proxies_say(identify: Identify, name: str) -> None:
    options = ("--forwarded-fields", "for,host,prefix", "--untrusted-forwarded", "remove")
    server = identify(name, *SENT, *options)
    with server.connect() as client:
        lines = ("X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: b", "X-Forwarded-Port: 1")
        for _ in range(2):
            reply = client.get("/", *lines, "X-Request-ID: a")
            assert (id_of(reply.json()), reply.get("x-request-id")) == ("a", "a")


def test_ids_go_with_requests_that_wait(identify: Identify) -> None:
    server = identify("on_native", *SENT, "--concurrency-max", "1", "--h2c")
    with server.connect() as client, server.connect() as other:
        client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\nX-Request-ID: a\r\n\r\n")
        other.send(b"GET /later HTTP/1.1\r\nHost: a\r\nX-Request-ID: b\r\n\r\n")
        for each, expected in ((client, "a"), (other, "b")):
            reply = each.read()
            assert (id_of(reply.json()), reply.get("x-request-id")) == (expected, expected)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--request-id", "X Y"), "is no name of a field; give one such as X-Request-ID"),
        (("--request-id", "Host"), "names a field with another meaning"),
        (("--request-id", "traceparent"), "names a field with another meaning"),
        (("--request-id-response",), "request_id_response needs request_id; set it to on"),
    ],
)
def test_what_is_no_field_is_refused(given: tuple[str, ...], says: str, tmp_path: Path) -> None:
    code, _, errors = command("serve", "app.py", *given, cwd=tmp_path)
    assert code == 2
    assert says in errors
