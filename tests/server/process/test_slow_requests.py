"""Slow requests are logged while they run, with the stack of what runs them."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bolide
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.process.slow_requests import REPORTS_PER_S_MAX
from support.h2 import Client as H2Client
from support.h2 import get
from support.server import Server, Start

pytestmark = pytest.mark.slow

WAITS = """
import asyncio
import os
import time

def is_held():
    return os.path.exists("held")

def block():
    while time.sleep(0.01) or is_held():  # blocks here
        pass

async def wait():
    while await asyncio.sleep(0.01) or is_held():  # waits here
        pass
"""

NATIVE = (
    WAITS
    + """
import bolide

app = bolide.App()

@app.get("/")
def at_once(request):
    return "at once"

@app.get("/block")
def call(request):
    block()
    return "done"

@app.get("/step")
async def step(request):
    await asyncio.sleep(0)
    block()
    return "done"

@app.get("/wait/{number}")
async def suspend(request, number):
    await asyncio.create_task(wait())
    return "done"

@app.get("/gather")
async def gather(request):
    await asyncio.gather(asyncio.sleep(0), wait())
    return "done"

@app.post("/content")
def content(request):
    return "read"

@app.post("/body")
async def body(request):
    return await request.body()  # reads here

@app.get("/stream")
async def stream(request):
    async def parts():
        yield b"begun"
        await wait()
    return bolide.Response(parts())
"""
)

ASGI = (
    WAITS
    + """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/block":
        block()
    else:
        await wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
"""
)

WSGI = (
    WAITS
    + """
def app(environ, start_response):
    block()
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]
"""
)

OPTION = ("--slow-request-ms", "100")
RUNNING = (
    r"WARN  bolide: (.*): no response for (\d\.\d{3}) s, and still running "
    r"\(--slow-request-ms 100\)"
)
ENDED = r"WARN  bolide: (.*): its response took (\d+\.\d{3}) s \(--slow-request-ms 100\)"
HEAD = b" HTTP/1.1\r\nHost: a\r\n\r\n"


class Slow:
    """A server whose requests go on until they are released."""

    def __init__(self, start: Start, folder: Path, app: str, *options: str) -> None:
        self.held = folder / "held"
        self.held.touch()
        (folder / "slow.py").write_text(app)
        self.server: Server = start("slow.py", *OPTION, *options, cwd=folder)

    def is_reported(self, title: str, *code: str) -> None:
        """Wait for the report about a request, which shows these lines of code."""
        assert self.server.wait_line(RUNNING)[1] == title
        for each in code:
            self.server.wait_line(re.escape(each))

    def releases(self, title: str) -> None:
        """Let the request respond, and wait for the report about that."""
        self.held.unlink()
        ended = self.server.wait_line(ENDED)
        assert ended[1] == title
        assert float(ended[2]) >= 0.1


def _ended(server: Server) -> str:
    """End a server; return what it has written."""
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    return server.errors


@pytest.mark.parametrize(
    ("app", "path", "code", "options"),
    [
        (NATIVE, "/block", ["in call", "in block", "# blocks here"], ()),
        (NATIVE, "/step", ["in step", "in block", "# blocks here"], ()),
        (NATIVE, "/step", ["in step", "# blocks here"], ("--eager-tasks", "off")),
        (NATIVE, "/wait/1", ["in suspend", "in wait", "# waits here"], ()),
        (NATIVE, "/gather", ["in gather", "in wait", "# waits here"], ()),
        (ASGI, "/block", ["in app", "in block", "# blocks here"], ()),
        (ASGI, "/wait", ["in app", "in wait", "# waits here"], ()),
        (WSGI, "/a", ["in app", "in block", "# blocks here"], ()),
        (WSGI, "/a", ["in app", "in block", "# blocks here"], ("--threads", "1")),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_request_is_reported_while_it_runs_and_when_it_ends(
    start: Start,
    tmp_path: Path,
    version: int,
    app: str,
    path: str,
    code: list[str],
    options: tuple[str, ...],
) -> None:
    slow = Slow(start, tmp_path, app, "--h2c", *options)
    target = f"{path}?token=secret"
    if version == 1:
        with slow.server.connect() as client:
            client.send(f"GET {target}".encode() + HEAD)
            slow.is_reported(f"GET {path}", *code)
            slow.releases(f"GET {path}")
            assert client.read().content == b"done"
    else:
        with H2Client(slow.server.connect()) as h2:
            h2.send(get(1, target))
            slow.is_reported(f"GET {path}", *code)
            slow.releases(f"GET {path}")
            assert h2.response(1).content == b"done"
    written = _ended(slow.server)
    reports = re.findall(RUNNING, written)
    assert len(reports) == len(re.findall(ENDED, written)) == 1
    assert "secret" not in written
    assert "base_events" not in written


def test_what_is_not_slow_is_not_reported(start: Start, tmp_path: Path) -> None:
    """A quick response, a stream that goes on, and content that takes its time."""
    slow = Slow(start, tmp_path, NATIVE)
    with slow.server.connect() as client:
        assert client.get("/").content == b"at once"
        client.send(b"GET /stream" + HEAD)
        assert client.read_until(b"begun")
        with slow.server.connect() as uploading:
            uploading.send(b"POST /content HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
            with slow.server.connect() as other:  # which is slow, and later than both
                other.send(b"GET /wait/7" + HEAD)
                slow.is_reported("GET /wait/7")
                uploading.send(b"cd")
                assert uploading.read().content == b"read"
                slow.releases("GET /wait/7")
                assert other.read().content == b"done"
    assert len(re.findall(RUNNING, _ended(slow.server))) == 1


def test_a_handler_that_waits_for_content_is_reported_too(start: Start, tmp_path: Path) -> None:
    slow = Slow(start, tmp_path, NATIVE)
    with slow.server.connect() as client:
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        slow.is_reported("POST /body", "# reads here")
        client.send(b"cd")
        slow.releases("POST /body")
        assert client.read().content == b"abcd"


def test_a_client_that_leaves_ends_its_request(start: Start, tmp_path: Path) -> None:
    slow = Slow(start, tmp_path, NATIVE)
    client = slow.server.connect()
    client.send(b"GET /wait/1" + HEAD)
    slow.is_reported("GET /wait/1")
    client.__exit__()
    slow.releases("GET /wait/1")


def test_a_request_that_waits_for_a_thread_is_reported_without_a_stack(
    start: Start, tmp_path: Path
) -> None:
    slow = Slow(start, tmp_path, WSGI, "--threads", "2")
    clients = [slow.server.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(f"GET /{number}".encode() + HEAD)
    for _ in clients:
        slow.server.wait_line(RUNNING)
    slow.held.unlink()
    for client in clients:
        assert client.read().content == b"done"
        client.__exit__()
    written = _ended(slow.server)
    assert len(re.findall(ENDED, written)) == 3
    assert written.count("blocks here") == 2
    assert len(re.findall(r"--slow-request-ms 100\)$", written, re.MULTILINE)) == 4


def test_reports_are_bounded_and_the_others_counted(start: Start, tmp_path: Path) -> None:
    slow = Slow(start, tmp_path, NATIVE, "--h2c")
    count = 60
    with H2Client(slow.server.connect()) as client:
        client.send(*(get(1 + 2 * number, f"/wait/{number}") for number in range(count)))
        slow.server.wait_line(r"\d+ more slow request\(s\) were not reported")
        slow.held.unlink()
        for number in range(count):
            assert client.response(1 + 2 * number).content == b"done"
    written = _ended(slow.server)
    shown = len(re.findall(RUNNING, written)) + len(re.findall(ENDED, written))
    counted = sum(map(int, re.findall(r"(\d+) more slow request\(s\) were not", written)))
    seconds = len(set(re.findall(r"^(\S+ \S+) .* slow-request", written, re.MULTILINE)))
    assert len(re.findall(RUNNING, written)) <= count - counted / 2
    assert count <= shown + counted <= 2 * count
    assert shown <= REPORTS_PER_S_MAX * (seconds + 20)


def test_a_time_is_zero_or_positive() -> None:
    assert resolve({"slow_request_ms": 0}).slow_request_ms == 0
    with pytest.raises(ConfigError, match=r"slow_request_ms=-1 "):
        resolve({"slow_request_ms": -1})


def test_an_embedded_server_reports_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: dict[str, str], receive: object, send: Callable[..., Any]) -> None:
        if scope["type"] == "http":
            while not caplog.records:
                await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        path = str(tmp_path / "socket")
        with caplog.at_level("WARNING", "bolide"):
            async with bolide.Server(app, uds=path, slow_request_ms=50):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(b"GET /embedded" + HEAD)
                assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 204 No Content\r\n"
                writer.close()

    asyncio.run(main())
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("GET /embedded: no response for 0.")
    assert "await asyncio.sleep(0.01)" in first
    assert re.fullmatch(r"GET /embedded: its response took \S+ s \(slow_request_ms=50\)", second)
