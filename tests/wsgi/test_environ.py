"""The environ over the socket; the numbers are those of the points that servers get wrong."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import pytest

from bolide.config.address import Address
from bolide.config.settings import resolve
from bolide.interface.wsgi import WsgiApplication
from bolide.server.listener import Listener
from bolide.server.service import Service
from support.client import Connection
from support.remembered_fields import FIELD_LINES, REMEMBERED
from support.server import Server

pytestmark = pytest.mark.slow


def test_46_environ_is_a_real_dict(client: Connection) -> None:
    shown = client.get("/a").json()
    assert shown["is_real"] is True
    assert client.get("/a").json() == shown, "what the first has changed, the second sees"


def test_46_an_environ_that_is_used_again_is_as_new(server: Server, client: Connection) -> None:
    port = str(client.socket.getsockname()[1])
    for target in ("/peek", "/peek", "/peek?a=1", "/peek", "/peek/%20?b", "/peek?keep", "/peek"):
        raw, _, query = target.partition("?")
        path = raw.replace("%20", " ")
        assert client.get(target).json()[:-1] == [path, query, target, target, port, None]
        assert client.get("/peek", "X-A: 1").json()[5] == "1"
        with server.connect() as other:
            assert other.get("/peek").json()[4] == str(other.socket.getsockname()[1])
        client.send(f"POST {target} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        assert client.read().json()[2] == target
    for _ in range(2):
        client.get("/hello")
    assert client.get("/kept").content == b"/peek?keep"
    # The POST has kept its own.
    assert client.get("/kept").content == b"/peek?keep"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="dicts have no versions there")
def test_46_an_environ_is_used_again_if_nobody_can_notice(start: Any) -> None:
    server = start("wsgi_plain.py", "--threads", "1", env={"BOLIDE_REUSE": "1"})
    with server.connect() as client:
        client.get("/peek")
        assert len({client.get(f"/peek/{number}").json()[-1] for number in range(5)}) == 1
        kept = [client.get("/peek?keep").json()[-1] for _ in range(3)]
        assert len(set(kept)) == 3


def test_46_path_info_is_the_decoded_path_as_latin_1(client: Connection) -> None:
    shown = client.get("/caf%C3%A9%20%252F").json()
    assert shown["PATH_INFO"] == "/caf\u00c3\u00a9 %2F"
    assert shown["RAW_URI"] == shown["REQUEST_URI"] == "/caf%C3%A9%20%252F"


def test_47_constants_and_addresses(server: Server, client: Connection) -> None:
    shown = client.get("/a/b?x=%20&y").json()
    host, port = client.socket.getsockname()
    wanted = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a/b",
        "QUERY_STRING": "x=%20&y",
        "RAW_URI": "/a/b?x=%20&y",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(server.address[1]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": host,
        "REMOTE_PORT": str(port),
        "HTTP_HOST": "test",
        "wsgi.url_scheme": "http",
        "wsgi.version": [1, 0],
        "wsgi.input_terminated": True,
    }
    assert {key: shown.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(("path", "query"), [("/a", ""), ("/a?", ""), ("/a?b?c", "b?c")])
def test_47_query_string_is_always_there(client: Connection, path: str, query: str) -> None:
    assert client.get(path).json()["QUERY_STRING"] == query


def test_47_the_authority_of_the_target_replaces_host(client: Connection) -> None:
    client.send(b"GET http://other:81/p HTTP/1.1\r\nHost: test\r\n\r\n")
    shown = client.read().json()
    assert (shown["HTTP_HOST"], shown["PATH_INFO"]) == ("other:81", "/p")
    assert shown["RAW_URI"] == "http://other:81/p"


@pytest.mark.parametrize("target", ["*", "http://test"])
def test_47_the_path_of_asterisk_form_is_not_the_root(client: Connection, target: str) -> None:
    client.send(f"OPTIONS {target} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    shown = client.read().json()
    asked = tuple(shown[name] for name in ("REQUEST_METHOD", "PATH_INFO", "RAW_URI"))
    assert asked == ("OPTIONS", "*", target)


def test_47_http_1_0(client: Connection) -> None:
    client.send(b"PATCH /p HTTP/1.0\r\n\r\n")
    shown = client.read("PATCH").json()
    assert (shown["SERVER_PROTOCOL"], shown["REQUEST_METHOD"]) == ("HTTP/1.0", "PATCH")


def test_47_the_version_is_each_requests_own(client: Connection) -> None:
    for number in ("1.1", "1.0", "1.0", "1.1", "1.1", "1.0"):
        for lines in ("", "X-A: 1\r\n"):
            field_lines = f"Host: test\r\nConnection: keep-alive\r\n{lines}"
            client.send(f"GET /p HTTP/{number}\r\n{field_lines}\r\n".encode())
            assert client.read().json()["SERVER_PROTOCOL"] == f"HTTP/{number}"


def test_47_unix_socket(start: Any, tmp_path: Any, threads: str) -> None:
    server = start("wsgi_plain.py", "--uds", str(tmp_path / "s"), "--threads", threads)
    with server.connect() as client:
        shown = client.get("/p").json()
    assert (shown["SERVER_NAME"], shown["SERVER_PORT"]) == ("localhost", "80")
    assert (shown["REMOTE_ADDR"], "REMOTE_PORT" in shown) == ("", False)


@pytest.mark.parametrize(
    ("path", "info"),
    [("/mount/x", "/x"), ("/mount", ""), ("/mountain", "/mountain"), ("/x%20y", "/x y")],
)
def test_47_script_name_and_path_info(path: str, info: str) -> None:
    environ = asyncio.run(environ_below("/mount", path))
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/mount", info)


def test_47_asterisk_form_is_below_no_root_path() -> None:
    environ = asyncio.run(environ_below("/mount", "*", "OPTIONS"))
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/mount", "*")


async def environ_below(root_path: str, path: str, method: str = "GET") -> dict[str, Any]:
    """Serve one request of an application below a root path; return its environ."""
    environs: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environs.append(environ)
        start_response("204 No Content", [])
        return []

    service = Service(WsgiApplication(app, root_path=root_path), resolve({"threads": 1}), None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = Address("127.0.0.1", listening.getsockname()[1])
        await service.startup(own_selector=False)
        await service.listen([Listener(listening, address)])
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        head = f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 204 ")
        writer.close()
        await writer.wait_closed()
        await service.stop(1)
    return environs[0]


def test_48_content_fields_have_no_twins(client: Connection) -> None:
    fields = "Host: test\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\n"
    client.send(f"POST /p HTTP/1.1\r\n{fields}hi".encode())
    shown = client.read().json()
    assert (shown["CONTENT_TYPE"], shown["CONTENT_LENGTH"]) == ("a/b", "2")
    assert not {"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"} & shown.keys()


def test_48_a_request_without_content_has_no_content_fields(client: Connection) -> None:
    assert not {"CONTENT_TYPE", "CONTENT_LENGTH"} & client.get("/p").json().keys()


def test_48_names_that_clients_choose_are_not_interned(client: Connection) -> None:
    # CPython 3.12.0 to 3.12.6 keep what was interned for as long as the process lives.
    for _ in range(2):
        assert client.get("/interned", "X-Chosen: 1", "Accept: 2").json() == []


def test_49_duplicates_are_joined(client: Connection) -> None:
    lines = ["X-A: 1", "x-a:  2 ", "X-a: 3", "Cookie: a=1", "cookie: b=2"]
    shown = client.get("/p", *lines).json()
    assert (shown["HTTP_X_A"], shown["HTTP_COOKIE"]) == ("1,2,3", "a=1; b=2")


def test_49_a_value_is_latin_1(client: Connection) -> None:
    client.send(b"GET /p HTTP/1.1\r\nHost: test\r\nX-A: caf\xe9\r\n\r\n")
    assert client.read().json()["HTTP_X_A"] == "caf\u00e9"


def test_49_names_with_an_underscore_are_dropped(client: Connection) -> None:
    for _ in range(2):
        shown = client.get("/p", "X_Real_Ip: 6.6.6.6", "X-Other: 1").json()
        assert "HTTP_X_REAL_IP" not in shown
        assert shown["HTTP_X_OTHER"] == "1"


def test_49_a_section_is_remembered_and_another_is_not_taken_for_it(client: Connection) -> None:
    for value in ("1", "1", "2", "1"):
        shown = client.get("/p", f"Accept: {value}", f"X-{value}: x").json()
        names = {key for key in shown if key.startswith("HTTP_X_")}
        assert (shown["HTTP_ACCEPT"], names) == (value, {f"HTTP_X_{value}"})


SECTIONS = [
    [],
    ["Accept: 1"],
    ["Accept: 2"],
    ["Accept: 2", "Cookie: a=1"],
    ["Accept: 2", "Cookie: b=2"],
    ["Accept: 1", "Cookie: b=2", "Pragma: 1"],
    ["Accept: 1", "Cookie: b=2", "Pragma: 2"],
    ["Authorization: Basic x", "Pragma: 2"],
    ["Authorization: Basic y", "Pragma: 3"],
    ["accept: 1", "Pragma: 3"],
    ["Pragma: 3", "Accept: 1"],
    ["Accept: 1", "Accept: 2"],
    ["Accept: 2"],
    ["Accept: " + "l" * 600],
    ["Accept: 2"],
    ["Accept: " + "m" * 600],
    ["Accept: " + "m" * 600, "Pragma: " + "n" * 6000],
    ["Accept_A: 1", "Pragma: 1"],
    ["Accept_A: 2", "Pragma: 2"],
    ["Accept:", "Pragma: 1"],
    ["X-Api-Key: 1", "Pragma: 1"],
    ["X-Api-Key: 2", "Pragma: 1"],
    ["X-Api-Key: 2", "Pragma: 2"],
]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_49_what_is_remembered_changes_nothing(client: Connection, method: str) -> None:
    order = [*SECTIONS, *reversed(SECTIONS), *SECTIONS[::2], *SECTIONS[::3]]
    for number, lines in enumerate(order):
        head = [f"{method if number % 3 else 'GET'} /p HTTP/1.1", "Host: test", *lines, "", ""]
        client.send("\r\n".join(head).encode())
        shown = client.read().json()
        said: dict[str, str] = {}
        for line in lines:
            name, value = line.split(":")
            key = "HTTP_" + name.upper().replace("-", "_")
            if "_" not in name:
                said[key] = f"{said[key]},{value.strip()}" if key in said else value.strip()
        fields = {key: value for key, value in shown.items() if key.startswith("HTTP_")}
        assert fields == {"HTTP_HOST": "test", **said}


def test_49_credentials_are_not_given_to_another(client: Connection) -> None:
    assert client.get("/p", "Authorization: Basic x").json()["HTTP_AUTHORIZATION"] == "Basic x"
    assert "HTTP_AUTHORIZATION" not in client.get("/p").json()
    assert client.get("/p", "Authorization: Basic y").json()["HTTP_AUTHORIZATION"] == "Basic y"


def test_49_only_harmless_fields_are_remembered(start: Any) -> None:
    server = start("wsgi_plain.py", "--threads", "1")
    for _ in range(2):
        with server.connect() as client:
            remembered = [client.get("/again", *FIELD_LINES).json() for _ in range(3)]
    keys = ["HTTP_" + name.upper().replace("-", "_") for name in REMEMBERED]
    assert remembered == [keys] * 3


def test_59_what_is_said_of_threads_and_processes_is_true(
    client: Connection, threads: str, start: Any
) -> None:
    shown = client.get("/p").json()
    names = ("wsgi.multithread", "wsgi.multiprocess", "wsgi.run_once")
    assert [shown[name] for name in names] == [threads != "1", False, False]
    server = start("wsgi_plain.py", "--workers", "2", "--threads", threads)
    with server.connect() as other:
        assert other.get("/p").json()["wsgi.multiprocess"] is True


def test_59_errors_are_written_to_standard_error_as_they_are(
    server: Server, client: Connection
) -> None:
    assert client.get("/errors").content == b"ok"
    for line in ("a line for the log", "flushed", "one", "two"):
        server.wait_line(f"^{line}$")


@pytest.mark.parametrize("how", ["whole", "raises", "early", "streamed"])
def test_59_a_line_without_a_break_is_written_at_the_end_of_the_call(
    server: Server, client: Connection, how: str
) -> None:
    assert client.get(f"/unfinished?{how}").status == (500 if how == "raises" else 200)
    rest = r", in the content, in close\(\)" if how in ("early", "streamed") else ""
    server.wait_line(f"^{how}: in the call{rest}$")


def test_61_server_software(client: Connection) -> None:
    assert client.get("/p").json()["SERVER_SOFTWARE"].startswith("bolide/")
