"""Bounds of content and handlers by path, and by route of native applications."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from admission.ledger import Ledger
from support.h2 import Client, data, post
from support.server import APPLICATIONS, Start, command

pytestmark = pytest.mark.slow

FILE = Path(__file__).parents[2] / "vectors" / "rfc3986" / "5.2.4-path-bounds.toml"
VECTORS = tomllib.loads(FILE.read_text())["bound"]
SMALL = ("--path-limit", "/read/small body_bytes_max=10")
LARGE = ("--body-bytes-max", "100", "--path-limit", "/read/large body_bytes_max=1M")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return the file that the application writes to."""
    return Ledger(tmp_path)


def test_content_is_bounded_by_the_longest_prefix(start: Start, ledger: Ledger) -> None:
    server = ledger.serve(start, *SMALL, *LARGE)
    for path, size, status in [
        ("/read/x", 100, 200),
        ("/read/x", 101, 413),
        ("/read/small", 10, 200),
        ("/read/small", 11, 413),
        ("/read/small/x", 11, 413),
        ("/read/smaller", 100, 200),
        ("/read/large/x", 200_000, 200),
        ("/read/large/x", (1 << 20) + 1, 413),
    ]:
        with server.connect() as client:
            head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n"
            client.send(head.encode())
            if status == 200:
                client.send(b"x" * size)
            assert client.read().status == status, (path, size)
        with server.connect() as client:
            client.send(f"POST {path} HTTP/1.1\r\nHost: test\r\n".encode())
            client.send(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size)
            client.send(b"x" * min(size, 1 << 20) + b"\r\n0\r\n\r\n" * (status == 200))
            if status == 413:
                client.send(b"x" * (size - min(size, 1 << 20)))
            assert client.read().status == status, (path, size)


def test_no_spelling_avoids_a_bound(start: Start, ledger: Ledger) -> None:
    rules = {"/login": 1, "/ü": 2, "/upload/small": 5, "/upload": 1000}
    options = [f"--path-limit={prefix} body_bytes_max={bound}" for prefix, bound in rules.items()]
    server = ledger.serve(start, "--body-bytes-max", "100", "--h2c", *options)
    streams = Client(server.connect())
    for number, case in enumerate(VECTORS):
        path, bound = case["path"], case["bytes"]
        for stream, size, status in (
            (4 * number + 1, bound, 200),
            (4 * number + 3, bound + 1, 413),
        ):
            with server.connect() as client:
                assert client.post(path, b"x" * size).status == status, case["id"]
            length = (b"content-length", str(size).encode())
            streams.send(post(stream, path, length), data(stream, b"x" * size, is_last=True))
            assert streams.response(stream).status == status, case["id"]
    streams.socket.close()
    # Over each protocol, no other reached the application.
    assert ledger.all("begun").total() == 2 * len(VECTORS)


def test_a_late_handler_is_ended_by_the_bound_of_its_path(start: Start, ledger: Ledger) -> None:
    options = ("--path-limit", "/hold/short handler_timeout_ms=50", "--h2c")
    server = ledger.serve(start, *options)
    with server.connect() as client, server.connect() as patient:
        patient.send(b"GET /hold/long HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.get("/hold/short").status == 503
        with Client(server.connect()) as streams:
            assert streams.request(1, "/hold/short/x").status == 503
        with server.connect() as opener:
            opener.get("/open")
        assert patient.read().status == 200


def test_a_response_that_has_begun_gets_no_status(start: Start, ledger: Ledger) -> None:
    server = ledger.serve(start, "--path-limit", "/ handler_timeout_ms=50")
    with server.connect() as client, server.connect() as opener:
        client.send(b"GET /stream HTTP/1.1\r\nHost: test\r\n\r\n")
        head = client.read_head()
        assert head.status == 200
        with server.connect() as late:
            assert late.get("/hold/late").status == 503
        opener.get("/open")
        client.socket.settimeout(10)
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += client.socket.recv(1000)
        assert b"503" not in received


def test_routes_of_native_applications_have_bounds(start: Start) -> None:
    server = start("admission/bounded.py", "--body-bytes-max", "100", "--h2c")
    with server.connect() as client:
        assert client.post("/small", b"x" * 10).content == b"10"
        assert client.post("/large/1", b"x" * 50_000).content == b"50000"
        assert client.post("/usual", b"x" * 100).content == b"100"
        assert client.get("/late").status == 503
    for path, size in [("/small", 11), ("/%73mall", 11), ("/usual", 101), ("/large/1", 100_001)]:
        with server.connect() as client:
            assert client.post(path, b"x" * size).status == 413, path
    with Client(server.connect()) as streams:
        assert streams.request(1, "/late").status == 503
        streams.send(post(3, "/small"), data(3, b"x" * 11, is_last=True))
        assert streams.response(3).status == 413


def test_routes_that_are_added_late_have_bounds(start: Start) -> None:
    server = start("admission/bounded_late.py", "--h2c")
    with server.connect() as client:
        assert client.get("/add").status == 200
    with server.connect() as client:
        assert client.post("/small", b"x" * 10).content == b"10"
        assert client.get("/late").status == 503
    with server.connect() as client:
        assert client.post("/small", b"x" * 11).status == 413
    server.wait_line(r"refused 1 request with 413.* or the limit of its path")
    with Client(server.connect()) as streams:
        assert streams.request(1, "/late").status == 503
        streams.send(post(3, "/small"), data(3, b"x" * 11, is_last=True))
        assert streams.response(3).status == 413


def test_threads_run_on_after_the_503_of_their_path(start: Start) -> None:
    server = start("admission/waits.py", "--path-limit", "/wait handler_timeout_ms=50")
    with server.connect() as client, server.connect() as other:
        assert client.get("/wait").status == 503
        assert other.get("/open").status == 200
        server.wait_line("the view has ended")


def test_a_file_may_have_tables(start: Start, tmp_path: Path, ledger: Ledger) -> None:
    file = tmp_path / "bolide.toml"
    file.write_text('[[path_limit]]\nprefix = "/read"\nbody_bytes_max = "1K"\n')
    server = ledger.serve(start, "--config", str(file))
    with server.connect() as client:
        assert client.post("/read", b"x" * 1024).status == 200
        assert client.post("/read", b"x" * 1025).status == 413


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("upload body_bytes_max=1", "a prefix starts with a slash"),
        ("/%75 body_bytes_max=1", "not percent-encoded"),
        ("/a/../b body_bytes_max=1", "without empty and dot segments"),
        ("/a", "with other bounds than body_bytes_max and handler_timeout_ms"),
        ("/a body=1", "with other bounds than body_bytes_max and handler_timeout_ms"),
        ("/a body_bytes_max=much", "has body_bytes_max=much, which is not a number of bytes"),
        ("/a handler_timeout_ms=-1", "which is out of range"),
        ("/a body_bytes_max=0", "which is out of range"),
        ("/a body_bytes_max=1,/a handler_timeout_ms=1", "has /a twice"),
    ],
)
def test_mistakes_are_one_line(value: str, message: str) -> None:
    environ = {"BOLIDE_PATH_LIMIT": value}
    code, _, errors = command("serve", "basic.py", cwd=APPLICATIONS, env=environ)
    assert code == 2
    assert message in errors
    assert len(errors.splitlines()) == 1
