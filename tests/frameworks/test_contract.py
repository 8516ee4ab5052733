"""The same endpoints on every framework, each through its own routing, forms, cookies and streams.

What is asked for is what a client sees; how a framework gets there is its own business.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator

import pytest

from support import form
from support.client import Connection
from support.server import Start

pytestmark = pytest.mark.slow

ASGI = [
    "on_blacksheep",
    "on_django",
    "on_falcon_asgi",
    "on_fastapi",
    "on_litestar",
    "on_quart",
    "on_starlette",
]
WSGI = ["on_bottle", "on_django:wsgi", "on_falcon_wsgi", "on_flask"]
FRAMEWORKS = [*ASGI, *WSGI]
MOUNTED = [
    "mounted /django",
    "mounted /django/asgi",
    "mounted /fastapi",
    "mounted /flask",
    "mounted /starlette",
    "mounted /fastapi --loop uvloop",
    "mounted /django --threads 1",
]
"""Below a prefix of one process that serves them all."""
OTHERWISE = ["on_fastapi --loop uvloop", "on_flask --threads 1"]
PARTS = b"part 0\npart 1\npart 2\npart 3\npart 4\n"
FILE_BYTES = 3_000_000
"""More than any framework keeps in memory of an upload."""


class Below(Connection):
    """A connection whose requests are for what is below a prefix."""

    prefix = ""

    def send(self, data: bytes) -> None:
        """Put the prefix before each path."""
        super().send(
            re.sub(rb"^(GET|POST) (?=/)", rb"\1 " + self.prefix.encode(), data, flags=re.M)
        )


@pytest.fixture(params=FRAMEWORKS + OTHERWISE + MOUNTED)
def client(request: pytest.FixtureRequest, serve: Start) -> Iterator[Connection]:
    """Connect to the application of a framework."""
    words = request.param.split()
    prefix = words.pop(1) if words[1:] and words[1].startswith("/") else ""
    with Below(serve(*words).address) as client:
        client.prefix = prefix
        yield client


def test_text(client: Connection) -> None:
    for _ in range(3):
        reply = client.get("/hello")
        assert (reply.status, reply.content) == (200, b"hello")
        assert (reply.get("content-length"), reply.get("server")) == ("5", "bolide")
        assert (reply.get("content-type") or "").startswith("text/plain")


def test_path_and_query(client: Connection) -> None:
    assert client.get("/items/7?q=a%20%C3%B6%2B").json() == {"id": 7, "q": "a \u00f6+"}
    assert client.get("/nothing").status == 404
    assert client.get("/hello").content == b"hello"


def test_json(client: Connection) -> None:
    content = {"name": "\u00f6", "list": [1, None, {}]}
    for _ in range(2):
        reply = client.post("/json", json.dumps(content).encode(), "Content-Type: application/json")
        assert (reply.status, reply.json()) == (200, content)


def test_form(client: Connection) -> None:
    field_line, content = form.urlencoded({"a": "1 2", "b": "\u00f6&"})
    reply = client.post("/form", content, field_line)
    assert (reply.status, reply.json()) == (200, {"a": "1 2", "b": "\u00f6&"})


@pytest.mark.parametrize("size", [0, 1000, FILE_BYTES])
def test_upload(client: Connection, size: int) -> None:
    file = os.urandom(size)
    field_line, content = form.multipart({"title": "t"}, {"file": ("f.bin", file)})
    reply = client.post("/upload", content, field_line)
    digest = hashlib.sha256(file).hexdigest()
    assert (reply.status, reply.json()) == (200, {"title": "t", "name": "f.bin", "digest": digest})
    assert client.get("/hello").content == b"hello"


def test_content_is_asked_for_when_it_is_wanted(client: Connection) -> None:
    fields = "Host: test\r\nContent-Length: 500000\r\nExpect: 100-continue\r\n\r\n"
    client.send(f"POST /count HTTP/1.1\r\n{fields}".encode())
    assert client.read_head().status == 100
    client.send(b"c" * 500_000)
    reply = client.read()
    assert (reply.status, reply.json()) == (200, 500_000)


@pytest.mark.parametrize("chunks", [0, 50, 200])
def test_chunked_content(client: Connection, chunks: int) -> None:
    client.send(b"POST /count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(chunks):
        client.send(b"2710\r\n" + b"c" * 10_000 + b"\r\n")
    client.send(b"0\r\n\r\n")
    reply = client.read()
    assert (reply.status, reply.json()) == (200, chunks * 10_000)


@pytest.mark.parametrize("framework", [each for each in FRAMEWORKS if each != "on_django"])
def test_chunked_upload(serve: Start, framework: str) -> None:
    """Django's own reader of forms goes by Content-Length, which an ASGI server must not add."""
    client = serve(*framework.split()).connect()
    field_line, content = form.multipart({"title": "t"}, {"file": ("f.bin", b"content")})
    fields = f"Host: test\r\n{field_line}\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(f"POST /upload HTTP/1.1\r\n{fields}".encode())
    client.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))
    digest = hashlib.sha256(b"content").hexdigest()
    with client:
        assert client.read().json() == {"title": "t", "name": "f.bin", "digest": digest}


def test_stream(client: Connection) -> None:
    for _ in range(2):
        reply = client.get("/stream")
        assert (reply.status, reply.content) == (200, PARTS)
        assert (reply.get("transfer-encoding"), reply.get("content-length")) == ("chunked", None)
    reply = client.get("/hello")
    assert reply.content == b"hello"


def test_stream_to_http_1_0_ends_with_the_connection(client: Connection) -> None:
    client.send(b"GET /stream HTTP/1.0\r\nHost: test\r\n\r\n")
    reply = client.read()
    assert (reply.status, reply.content, reply.is_last) == (200, PARTS, True)
    assert reply.get("transfer-encoding") is None


def test_cookies(client: Connection) -> None:
    reply = client.get("/cookies", "Cookie: x=1; y=2")
    assert reply.json() == {"x": "1", "y": "2"}
    cookies = [value.partition(";")[0] for name, value in reply.fields if name == "set-cookie"]
    assert cookies == ["a=1", "b=2"]


def test_error_is_500_and_the_connection_goes_on(client: Connection) -> None:
    assert client.get("/raises").status == 500
    assert client.get("/hello").content == b"hello"


def test_pipelined_requests(client: Connection) -> None:
    paths = ["/hello", "/stream", "/nothing", "/hello"]
    client.send(b"".join(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode() for path in paths))
    replies = [client.read() for _ in paths]
    assert [reply.status for reply in replies] == [200, 200, 404, 200]
    assert [replies[0].content, replies[1].content, replies[3].content] == [
        b"hello",
        PARTS,
        b"hello",
    ]


@pytest.mark.parametrize("framework", sorted({*FRAMEWORKS} - {"on_falcon_asgi"}))
def test_root_path_is_in_what_the_framework_links_to(serve: Start, framework: str) -> None:
    with serve(framework, "--root-path", "/shop").connect() as client:
        for prefix in ("", "/shop"):
            reply = client.get(f"{prefix}/url")
            assert (reply.status, reply.content.decode().lstrip("/")) == (200, "shop/hello")
            assert client.get(f"{prefix}/hello").content == b"hello"


def test_falcon_does_not_take_the_root_path_off_the_path(serve: Start) -> None:
    """ASGI's path includes the root path, and Falcon's routes match all of it."""
    with serve("on_falcon_asgi", "--root-path", "/items").connect() as client:
        assert client.get("/7?q=a").json() == {"id": 7, "q": "a"}


@pytest.mark.parametrize("framework", sorted({*ASGI} - {"on_django", "on_fastapi"}))
def test_startup_has_run(serve: Start, framework: str) -> None:
    with serve(framework).connect() as client:
        assert client.get("/state").json() in (True, [1, True])


@pytest.mark.parametrize("prefix", ["django", "django/asgi", "fastapi", "flask", "starlette"])
def test_a_prefix_is_in_what_the_framework_links_to(serve: Start, prefix: str) -> None:
    with serve("mounted").connect() as client:
        assert client.get(f"/{prefix}/url").content.decode() == f"/{prefix}/hello"
        assert client.get("/hello").content == b"native"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("threads", ["8", "1"])
def test_frameworks_of_one_process_respond_in_order(serve: Start, threads: str, loop: str) -> None:
    contents = {"/hello": b"native"}
    for prefix in ("/fastapi", "/django", "/starlette", "/flask"):
        contents |= {f"{prefix}/hello": b"hello", f"{prefix}/stream": PARTS}
    paths = [*contents, *reversed(contents)] * 3
    with serve("mounted", "--threads", threads, "--loop", loop).connect() as client:
        requests = (f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n" for path in paths)
        client.send("".join(requests).encode())
        found = [(path, client.read().content) for path in paths]
        assert found == [(path, contents[path]) for path in paths]
