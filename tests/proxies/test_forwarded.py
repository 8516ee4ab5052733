"""Forwarded and X-Forwarded-*: who is believed, and what the application and the log get of it."""

from __future__ import annotations

import json
import re
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest

from proxies.conftest import ON_INTERFACES, Serve, asked
from support.client import Connection
from support.h2 import Client
from support.server import APPLICATIONS, Server, Start
from support.waiting import wait_until
from support.websocket_carriers import CARRIERS, SECURE, connect_by

pytestmark = pytest.mark.slow

VECTORS = Path(__file__).parents[2] / "vectors" / "rfc7239"
TRUSTED = "127.0.0.0/8,192.0.2.0/24,2001:db8:1::/48,unix"
"""What the vectors say is trusted, and the tests' own address."""
FRAME_BYTES = 10_000
"""Longer field sections are not sent over HTTP/2: they need several frames."""
X_FIELDS = ("for", "proto", "host", "port", "prefix")
CLIENT = "X-Forwarded-For: 203.0.113.7"
HTTPS = "X-Forwarded-Proto: https"


def read_cases() -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Return the vectors by the fields that are read."""
    by_fields: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for path in sorted(VECTORS.glob("*.toml")):
        for case in tomllib.loads(path.read_text())["forwarded"]:
            by_fields.setdefault(tuple(case.get("read", X_FIELDS)), []).append(case)
    return by_fields


CASES = read_cases()


def field_lines(case: dict[str, Any]) -> list[str]:
    """Return the field lines of a case."""
    return [
        line
        if isinstance(line, str)
        else f"X-Forwarded-For: {line['text'] * line['times']}{line['end']}"
        for line in case["lines"]
    ]


def judge(case: dict[str, Any], seen: dict[str, Any]) -> None:
    """Compare what an application knows with what a case says."""
    said, why = case.get("said", {}), f"{case['id']}: {case['why']}"
    client = seen["client"]
    match said.get("client"):
        case None:
            assert client[0] == "127.0.0.1", why
        case "hidden":
            assert client is None, why
        case address:
            assert client == [address, said.get("client_port", 0)], why
    assert seen["scheme"] == said.get("scheme", "http"), why
    host = f"test:{said['port']}" if "port" in said else said.get("host", "test")
    assert seen["host"] == host, why
    assert seen["root_path"] == said.get("prefix", ""), why
    assert seen["path"] == said.get("prefix", "") + "/a", why


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_INTERFACES)
@pytest.mark.parametrize("fields", CASES, ids=",".join)
def test_every_vector(serve: Serve, name: str, fields: tuple[str, ...]) -> None:
    options = ("--trusted-proxies", TRUSTED, "--forwarded-fields", ",".join(fields))
    server = serve(name, *options, "--h2c", "--header-section-bytes-max", "200000")
    plain = {"id": "plain", "why": "without any", "lines": []}
    with server.connect() as client, Client(server.connect()) as streams:
        # Each after and before one without fields: nothing may remain of it.
        for index, each in enumerate(case for of in CASES[fields] for case in (of, plain)):
            judge(each, asked(client, *field_lines(each)))
            if sum(map(len, field_lines(each))) > FRAME_BYTES:
                continue
            lines = [line.split(": ", 1) for line in field_lines(each)]
            pairs = [(name.lower().encode(), value.encode()) for name, value in lines]
            message = streams.request(2 * index + 1, "/a", *pairs)
            judge(each | {"id": f"{each['id']} on HTTP/2"}, json.loads(message.content))


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_by_default_this_machine_is_trusted(serve: Serve, name: str) -> None:
    server = serve(name)
    line = r"X-Forwarded-For and X-Forwarded-Proto are read from 127\.0\.0\.0/8, ::1 and UNIX sock"
    assert any(re.search(line, each) for each in server.lines)
    with server.connect() as client:
        fields = ("X-Forwarded-Host: b", "X-Forwarded-Prefix: /c", "Forwarded: for=198.51.100.1")
        seen = asked(client, CLIENT, HTTPS, *fields)
        assert (seen["client"], seen["scheme"]) == (["203.0.113.7", 0], "https")
        assert (seen["host"], seen["root_path"]) == ("test", "")
        local = client.socket.getsockname()
        assert asked(client)["client"] == list(local)
        assert asked(client, "X_Forwarded_For: 203.0.113.7")["client"] == list(local)


@pytest.mark.parametrize("trusted", ["none", "192.0.2.0/24,unix", "::1"])
@pytest.mark.parametrize("name", ON_INTERFACES)
def test_other_peers_are_not_believed(serve: Serve, name: str, trusted: str) -> None:
    fields = ",".join((*X_FIELDS, "forwarded"))
    server = serve(name, "--trusted-proxies", trusted, "--forwarded-fields", fields, "--h2c")
    lines = [CLIENT, HTTPS, "X-Forwarded-Host: b", "X-Forwarded-Prefix: /c", "Forwarded: for=a"]
    with server.connect() as client, Client(server.connect()) as streams:
        seen = asked(client, *lines)
        judge({"id": "h1", "why": ""}, seen)
        assert seen["client"] == list(client.socket.getsockname())
        assert "X-FORWARDED-FOR" in str(seen["fields"]).upper().replace("_", "-")
        pairs = [tuple(part.encode() for part in line.lower().split(": ", 1)) for line in lines]
        message = streams.request(1, "/a", *pairs)  # type: ignore[arg-type]
        seen = json.loads(message.content)
        judge({"id": "h2", "why": ""}, seen)
        assert seen["client"] == list(streams.socket.getsockname())


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_what_is_not_believed_can_be_removed(serve: Serve, name: str) -> None:
    server = serve(name, "--trusted-proxies", "none", "--untrusted-forwarded", "remove", "--h2c")
    lines = [CLIENT, HTTPS, "X_Forwarded_For: 1", "x-forwarded_host: 2", "Forwarded: for=a"]
    with server.connect() as client:
        seen = asked(client, "X-A: 1", *lines, "X-B: 2")
        assert "FORWARDED" not in str(seen["fields"]).upper()
        assert "X-A" in (kept := str(seen["fields"]).upper().replace("_", "-")) and "X-B" in kept
        assert client.get("/a").status == 200
    with Client(server.connect()) as streams:
        pairs = [(b"x-forwarded-for", b"1"), (b"x-a", b"1"), (b"forwarded", b"for=a")]
        seen = json.loads(streams.request(1, "/a", *pairs).content)
        assert "FORWARDED" not in str(seen["fields"]).upper()
        assert "X-A" in str(seen["fields"]).upper().replace("_", "-")


@pytest.mark.parametrize("name", ON_INTERFACES)
def test_what_a_trusted_peer_may_have_passed_on_is_removed(serve: Serve, name: str) -> None:
    server = serve(name, "--untrusted-forwarded", "remove", "--h2c")  # for and proto are read
    lines = ["X-Forwarded-Host: 1", "x-forwarded-port: 2", "X-Forwarded-Prefix: /3"]
    with server.connect() as client:
        seen = asked(client, CLIENT, *lines, "Forwarded: for=a")
        judge({"id": "h1", "why": "", "said": {"client": "203.0.113.7"}}, seen)
        kept = str(seen["fields"]).upper().replace("_", "-")
        assert kept.count("FORWARDED") == kept.count("X-FORWARDED-FOR") == 1
    with Client(server.connect()) as streams:
        pairs = [tuple(part.encode() for part in line.lower().split(": ")) for line in lines]
        pairs += [(b"x-forwarded-for", b"203.0.113.7"), (b"forwarded", b"for=a")]
        seen = json.loads(streams.request(1, "/a", *pairs).content)  # type: ignore[arg-type]
        judge({"id": "h2", "why": "", "said": {"client": "203.0.113.7"}}, seen)
        kept = str(seen["fields"]).upper().replace("_", "-")
        assert kept.count("FORWARDED") == kept.count("X-FORWARDED-FOR") == 1


@pytest.mark.parametrize("name", ["on_native", "on_asgi"])
def test_underscores_are_removed_from_trusted_peers_too(serve: Serve, name: str) -> None:
    server = serve(name, "--untrusted-forwarded", "remove")
    with server.connect() as client:
        seen = asked(client, "X_Forwarded_For: 198.51.100.1", CLIENT)
    assert seen["client"] == ["203.0.113.7", 0]
    assert ["x-forwarded-for", "203.0.113.7"] in seen["fields"]
    assert "_" not in str(seen["fields"])


@pytest.mark.parametrize("name", ["on_native", "on_asgi"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_websocket_is_its_clients(serve: Serve, name: str, carrier: str) -> None:
    options = ("--forwarded-fields", "for,proto,host,prefix", "--websocket-origins", "same")
    server = serve(name, *options, *(SECURE if "TLS" in carrier else ()))
    lines = (CLIENT, "X-Forwarded-Proto: wss", "X-Forwarded-Host: b", "X-Forwarded-Prefix: /c")
    with connect_by(carrier, server) as socket:
        socket.open("/a", *lines, "Origin: https://b")
        seen = json.loads(socket.frame().content)
    assert seen["client"] == ["203.0.113.7", 0]
    assert seen["scheme"] == ("wss" if name == "on_asgi" else "https")
    assert (seen["host"], seen["path"]) == ("b", "/c/a")
    with connect_by(carrier, server) as socket:
        socket.ask("/a", *lines, "Origin: https://test")
        assert socket.read_head().status == 403


def test_items_of_wsgi(serve: Serve) -> None:
    server = serve("on_wsgi", "--forwarded-fields", "for,proto,host,port")
    keys = ("HTTPS", "SERVER_NAME", "SERVER_PORT", "REMOTE_PORT")
    local = server.address
    assert not isinstance(local, str)
    with server.connect() as client:
        own_port = str(client.socket.getsockname()[1])
        for lines, expected in [
            ((), (None, local[0], str(local[1]), own_port)),
            ((CLIENT,), (None, local[0], str(local[1]), None)),
            ((f"{CLIENT}:99", HTTPS), ("on", local[0], str(local[1]), "99")),
            ((HTTPS, "X-Forwarded-Host: b"), ("on", "b", "443", own_port)),
            (("X-Forwarded-Host: [::1]:81",), (None, "::1", "81", own_port)),
            ((HTTPS, "X-Forwarded-Port: 443"), ("on", "test", "443", own_port)),
            ((), (None, local[0], str(local[1]), own_port)),
        ]:
            seen = asked(client, *lines)
            # Who is the peer, if nothing says who the client is, keeps its port.
            assert tuple(seen[key] for key in keys) == expected, lines


@pytest.mark.parametrize("threads", ["1", "8"])
def test_wsgi_forgets_what_the_last_request_said(serve: Serve, threads: str) -> None:
    server = serve("on_wsgi", "--threads", threads, "--forwarded-fields", "for,proto,prefix")
    with server.connect() as client:
        own = list(client.socket.getsockname())
        for _ in range(3):
            seen = asked(client, CLIENT, HTTPS, "X-Forwarded-Prefix: /c")
            assert (seen["client"][0], seen["scheme"], seen["HTTPS"]) == (
                "203.0.113.7",
                "https",
                "on",
            )
            assert (seen["root_path"], seen["path"]) == ("/c", "/c/a")
            seen = asked(client)
            assert (seen["client"], seen["scheme"], seen["HTTPS"]) == (own, "http", None)
            assert (seen["root_path"], seen["path"]) == ("", "/a")


def test_the_prefix_precedes_the_root_path(serve: Serve) -> None:
    for name in ("on_asgi", "on_wsgi"):
        server = serve(name, "--root-path", "/in", "--forwarded-fields", "prefix")
        with server.connect() as client:
            for path in ("/a", "/in/a", "/out/in/a"):
                seen = asked(client, "X-Forwarded-Prefix: /out/", path=path)
                assert (seen["root_path"], seen["path"]) == ("/out/in", "/out/in/a"), path


@pytest.mark.parametrize("below", ["asgi", "wsgi"])
def test_a_mounted_application_knows_the_client_too(serve: Serve, below: str) -> None:
    server = serve("mounted", "--forwarded-fields", "for,proto,prefix")
    with server.connect() as client:
        lines = (CLIENT, HTTPS, "X-Forwarded-Prefix: /out")
        seen = asked(client, *lines, path=f"/{below}/a")
        assert (seen["client"], seen["scheme"]) == (["203.0.113.7", 0], "https")
        assert (seen["root_path"], seen["path"]) == (f"/out/{below}", f"/out/{below}/a")
        seen = asked(client, path=f"/{below}/a")
        assert (seen["root_path"], seen["scheme"]) == (f"/{below}", "http")


def test_a_reload_changes_who_is_trusted(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text((APPLICATIONS / "forwarded/on_native.py").read_text())
    config = tmp_path / "bolide.toml"
    config.write_text("")
    server = start("app.py", cwd=tmp_path)
    with server.connect() as client:
        assert asked(client, CLIENT)["client"] == ["203.0.113.7", 0]
    config.write_text('trusted_proxies = "none"\n')
    server.signal(signal.SIGHUP)
    server.wait_line("no proxy is trusted: Forwarded and X-Forwarded-. are not read")
    server.wait_line("reloaded in ")
    wait_until(lambda: len(server.workers()) == 1)  # the worker that drains may still accept
    with server.connect() as client:
        assert asked(client, CLIENT)["client"] == list(client.socket.getsockname())


def test_content_arrives_with_its_client(serve: Serve) -> None:
    server = serve("on_native")
    with server.connect() as client:
        head = f"POST /content HTTP/1.1\r\nHost: a\r\n{CLIENT}\r\nContent-Length: 2\r\n\r\n"
        client.send(head.encode() + b"x")
        client.send(b"y")
        assert client.read().json()["client"] == ["203.0.113.7", 0]


def test_a_host_replaces_that_of_an_absolute_target(serve: Serve) -> None:
    server = serve("on_native", "--forwarded-fields", "host,port,proto,prefix")
    with server.connect() as client:
        fields = "X-Forwarded-Host: b\r\nX-Forwarded-Prefix: /c\r\nX-Forwarded-Proto: https\r\n"
        client.send(f"GET http://a:1/x?y HTTP/1.1\r\nHost: a:1\r\n{fields}\r\n".encode())
        seen = client.read().json()
        assert (seen["host"], seen["url"]) == ("b", "https://b/c/x?y")
        assert ["host", "b"] in seen["fields"]


def test_unix_sockets_are_trusted_by_their_word(start: Start, tmp_path: Path) -> None:
    for trusted, expected in (("unix", ["203.0.113.7", 0]), ("127.0.0.0/8", None)):
        path = tmp_path / trusted.replace("/", "-")
        where = ("--uds", str(path), "--trusted-proxies", trusted)
        server = start("forwarded/on_wsgi.py", *where)
        with server.connect() as client:
            seen = asked(client, CLIENT, HTTPS)
            assert seen["client"] == expected
            assert seen["SERVER_PORT"] == ("443" if expected else "80")


def test_the_access_log_has_the_client(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("forwarded/on_native.py", "--access-log", str(log), "--h2c")
    with server.connect() as client, Client(server.connect()) as streams:
        for lines in ((CLIENT,), (), ("X-Forwarded-For: unknown",), ("X-Forwarded-For: a b",)):
            asked(client, *lines)
        streams.request(1, "/a", (b"x-forwarded-for", b"203.0.113.8"))
        assert client.get("/a", CLIENT, "Content-Length: 99999999999").status == 413
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    clients = [line.split()[0] for line in log.read_text().splitlines()]
    expected = ["203.0.113.7", "127.0.0.1", "-", "127.0.0.1", "203.0.113.8", "203.0.113.7"]
    assert clients == expected


def test_many_hops_take_linear_time(serve: Serve) -> None:
    server: Server = serve(
        "on_native", "--trusted-proxies", "*", "--header-section-bytes-max", "2000000"
    )
    with Connection(server.address) as client:
        seen = asked(client, "X-Forwarded-For: 203.0.113.7" + ", 192.0.2.1" * 100_000)
        assert seen["client"] == ["203.0.113.7", 0]
