"""What applications of each interface see of HTTP/2: the version, and all else as in HTTP/1."""

from __future__ import annotations

import json

import pytest

from support.h2 import Code, Connect, data, get, headers, post, request_fields, reset, window_update
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

FIELDS = [(b"x-a", b"1"), (b"cookie", b"a=b"), (b"x-a", b"2"), (b"cookie", b"c=d")]


def test_the_scope_of_asgi(start: Start, connect: Connect) -> None:
    client = connect(start("h2/asgi.py", "--h2c"))
    shown = json.loads(client.request(1, "/scope/%20?q=%20", *FIELDS).content)
    assert shown == {
        "type": "http",
        "http_version": "2",
        "scheme": "http",
        "method": "GET",
        "path": "/scope/ ",
        "raw_path": "/scope/%20",
        "query_string": "q=%20",
        "headers": [["host", "test"], ["x-a", "1"], ["cookie", "a=b; c=d"], ["x-a", "2"]],
    }


def test_the_environ_of_wsgi(start: Start, connect: Connect) -> None:
    client = connect(start("h2/wsgi.py", "--h2c"))
    shown = json.loads(client.request(1, "/environ/%20?q=%20", *FIELDS).content)
    assert shown == {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/environ/ ",
        "QUERY_STRING": "q=%20",
        "SERVER_PROTOCOL": "HTTP/2.0",
        "SERVER_NAME": shown["SERVER_NAME"],
        "CONTENT_LENGTH": None,
        "CONTENT_TYPE": None,
        "HTTP_HOST": "test",
        "HTTP_COOKIE": "a=b; c=d",
        "wsgi.url_scheme": "http",
    }


def test_the_request_of_native_handlers(server: Server, connect: Connect) -> None:
    client = connect(server)
    shown = json.loads(client.request(1, "/fields", (b"x-a", b"1")).content)
    assert (shown["version"], shown["scheme"], shown["host"]) == ("2", "http", "test")
    assert ["x-a", "1"] in [[name.lower(), value] for name, value in shown["fields"]]


def test_content_whose_length_is_not_announced(start: Start, connect: Connect) -> None:
    client = connect(start("h2/wsgi.py", "--h2c"))
    client.send(post(1, "/environ"), data(1, b"some", is_last=True))
    shown = json.loads(client.response(1).content)
    assert shown["CONTENT_LENGTH"] in (None, "", "4")
    client.send(post(3, "/echo"), data(3, b"some"), data(3, b"content", is_last=True))
    assert client.response(3).content == b"somecontent"


def test_a_reset_is_a_disconnect(start: Start, connect: Connect) -> None:
    server = start("h2/asgi.py", "--h2c")
    client = connect(server)
    client.send(get(1, "/watch"), get(3, "/watch"))
    client.ping()
    client.send(reset(1))

    def counts() -> dict[str, int]:
        with server.connect() as other:
            found: dict[str, int] = other.get("/counts").json()
            return found

    wait_until(lambda: counts() == {"http.request": 2, "http.disconnect": 1})
    client.send(post(5, "/watch"), data(5, b"some"))
    client.ping()
    client.send(reset(5, Code.INTERNAL_ERROR), reset(3))
    wait_until(lambda: counts()["http.disconnect"] == 3)


def test_send_fails_after_a_reset(start: Start, connect: Connect) -> None:
    server = start("h2/asgi.py", "--h2c")
    client = connect(server)
    client.send(get(1, "/endless"))
    client.ping()
    client.send(reset(1))

    def has_ended() -> bool:
        with server.connect() as other:
            return bool(other.get("/counts").json() == {"endless": 1, "ended": 1})

    wait_until(has_ended)
    client.send(window_update(0, 1000))
    assert client.request(3, "/").content == b"hello"


@pytest.mark.parametrize("target", ["h2/asgi.py", "h2/native.py"])
def test_a_response_before_the_content(start: Start, connect: Connect, target: str) -> None:
    client = connect(start(target, "--h2c"))
    client.send(post(1, "/early"), data(1, bytes(1000)))
    assert client.response(1).content == b"early"
    client.send(data(1, bytes(1000), is_last=True))
    assert client.request(3, "/").content == b"hello"
    assert client.messages[1].reset is None


@pytest.mark.parametrize("target", ["h2/asgi.py", "h2/native.py", "h2/wsgi.py"])
def test_many_streams_at_once(start: Start, connect: Connect, target: str) -> None:
    client = connect(start(target, "--h2c"))
    streams = range(1, 200, 2)
    client.send(*(headers(stream, request_fields("GET", "/")) for stream in streams))
    for stream in streams:
        assert client.response(stream).content == b"hello"
