"""The tools themselves, where they are installed, against a server that responds right or wrong."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bolide.lab.tools import TOOLS, Load, Reading, ToolError, find

pytestmark = [pytest.mark.alone, pytest.mark.tools]

CONTENT = b"Hello, World!"
KEPT = [name for name in TOOLS if name not in ("webbench", "hold")]


class Responding(BaseHTTPRequestHandler):
    """/ is right, /failing responds with 500, /longer has another content."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        content = b"Hello, whole World!" if self.path == "/longer" else CONTENT
        self.send_response(500 if self.path == "/failing" else 200)
        self.send_header("Content-Length", str(len(content)))
        if "keep-alive" in self.headers.get("Connection", "").lower():
            self.send_header("Connection", "keep-alive")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    """A connection that its client cut off at the end of a run is no news."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Quiet(("127.0.0.1", 0), Responding) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(name: str, load: Load) -> Reading:
    tool = find(name)
    if tool.version() is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run(tool.command(load), capture_output=True, text=True, timeout=20)
    return tool.read(done.stdout, done.stderr, done.returncode, load)


def response_bytes(url: str, name: str, *, is_persistent: bool) -> int:
    """Return the size of a response to a request as the tool sends it."""
    field = "" if is_persistent else "Connection: close\r\n"
    version = "1.1"
    if name == "ab":
        version, field = "1.0", "Connection: Keep-Alive\r\n" if is_persistent else ""
    host, _, port = url.removeprefix("http://").removesuffix("/").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"GET / HTTP/{version}\r\nHost: x\r\n{field}\r\n".encode())
        received = b""
        while not received.endswith(CONTENT):
            received += connection.recv(65536)
    return len(received)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("is_persistent", [True, False])
def test_right_responses(url: str, name: str, is_persistent: bool) -> None:
    if name == "h2load" and not is_persistent:
        pytest.skip("h2load always keeps its connections")
    load = Load(
        f"{url}/",
        connections=4,
        duration_s=1,
        is_persistent=is_persistent,
        expected_content=CONTENT,
    )
    found = run(name, load)
    assert found.ok and found.requests_per_s and found.latency_us and found.seconds
    assert found.ok > 50
    assert found.requests_per_s == pytest.approx(found.ok / found.seconds, rel=0.01)
    assert found.seconds == pytest.approx(1, abs=0.6)
    assert found.latency_us["mean"] and found.latency_us["max"]
    assert found.latency_us["mean"] < found.latency_us["max"] < 2e6


@pytest.mark.parametrize("name", KEPT)
def test_error_pages_are_no_throughput(url: str, name: str) -> None:
    found = run(name, Load(f"{url}/failing", connections=4, duration_s=1))
    assert (found.ok, found.requests_per_s, found.latency_us) == (0, 0, None)
    assert found.failed and found.errors["wrong_status"] > 50


@pytest.mark.parametrize("name", ["bolide", "ab", "hey", "oha", "h2load"])
def test_another_content_is_wrong(url: str, name: str) -> None:
    load = Load(f"{url}/longer", connections=4, duration_s=1, expected_content=CONTENT)
    found = run(name, load)
    assert found.ok == 0
    assert sum(found.errors.values()) > 50  # of a class like "long"


@pytest.mark.parametrize(
    ("name", "is_persistent"),
    [("wrk", True), ("ab", True), ("ab", False), ("bombardier", True), ("bombardier", False)],
)
def test_a_tool_that_checks_no_content_is_held_to_its_length(
    url: str, name: str, is_persistent: bool
) -> None:
    size = response_bytes(f"{url}/", name, is_persistent=is_persistent)
    right = Load(
        f"{url}/",
        connections=4,
        duration_s=1,
        is_persistent=is_persistent,
        response_bytes=size,
    )
    assert run(name, right).errors.get("wrong_body") is None
    found = run(name, dataclasses.replace(right, url=f"{url}/longer"))
    assert (found.ok, found.requests_per_s) == (0, 0)
    assert found.errors["wrong_body"] == found.failed
    assert any(
        f"{size + 6:,.0f} bytes on average, heads included, instead of the {size:,.0f}" in each
        for each in found.remarks
    )


@pytest.mark.parametrize("name", ["bolide", "wrk", "h2load"])
def test_pipelining(url: str, name: str) -> None:
    load = Load(f"{url}/", connections=4, duration_s=1, pipeline_depth=8, expected_content=CONTENT)
    found = run(name, load)
    assert found.ok and found.ok > 50
    assert found.latency_us and found.latency_us["mean"]


@pytest.mark.parametrize("name", KEPT)
def test_nobody_listens(name: str) -> None:
    load = Load("http://127.0.0.1:1/", connections=4, duration_s=1)
    try:
        found = run(name, load)
    except ToolError as error:
        assert "\n" not in str(error)
    else:
        assert not found.ok
        assert not found.requests_per_s
