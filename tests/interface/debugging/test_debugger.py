"""`bolide serve --debug`, with every interface, and in a browser."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.browser import BROWSER
from support.client import Reply
from support.server import Server, Start, command

pytestmark = pytest.mark.slow

NATIVE = """
import asyncio, time
import bolide
app = bolide.App()

@app.get("/boom")
async def boom(request):
    raise ValueError("<script>document.title = 'owned'</script>")  # here

@app.get("/bad")
def bad(request):
    return object()

@app.get("/refuses")
def refuses(request):
    raise bolide.HTTPError(418)

@app.get("/slow")
async def slow(request):
    await asyncio.sleep(0)
    time.sleep(0.3)
    return str(asyncio.get_running_loop().get_debug())

@app.get("/streams")
async def streams(request):
    async def parts():
        yield "x"
        raise ValueError
    return parts()
"""
ASGI = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError
    start = {"type": "http.response.start", "headers": []}
    if scope["path"] == "/own":  # as Starlette does
        await send({**start, "status": 500})
        await send({"type": "http.response.body", "body": b"own"})
    elif scope["path"] == "/quiet":
        await send({**start, "status": 500})
        await send({"type": "http.response.body", "body": b"quiet"})
        return
    elif scope["path"] == "/begun":
        await send({**start, "status": 200})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    raise ValueError("raised")  # here
"""
WSGI = """
def app(environ, start_response):
    if environ["PATH_INFO"] == "/parts":
        return parts(start_response)
    raise ValueError("raised")  # here

def parts(start_response):
    start_response("200 OK", [])
    raise ValueError("raised")  # here
    yield b""
"""


def begin(start: Start, folder: Path, text: str, *options: str) -> Server:
    (folder / "shop.py").write_text(text)
    return start("shop.py", "--debug", *options, cwd=folder)


def get(
    server: Server, path: str, *fields: str, host: str = "localhost", version: str = "1.1"
) -> Reply:
    with server.connect() as client:
        lines = [f"GET {path} HTTP/{version}", f"Host: {host}", *fields, "", ""]
        client.send("\r\n".join(lines).encode())
        return client.read()


@pytest.mark.parametrize(
    ("text", "path", "options"),
    [
        (NATIVE, "/boom", ()),
        (ASGI, "/", ()),
        (ASGI, "/own", ()),
        (WSGI, "/", ()),
        (WSGI, "/parts", ()),
        (WSGI, "/parts", ("--threads", "1")),
    ],
)
def test_a_traceback_is_shown_to_this_machine_and_logged(
    start: Start, tmp_path: Path, text: str, path: str, options: tuple[str, ...]
) -> None:
    server = begin(start, tmp_path, text, *options)
    shown = get(server, path, "Cookie: id=hunter2", "Authorization: Basic hunter2")
    assert (shown.status, shown.get("content-type")) == (500, "text/plain; charset=utf-8")
    assert b"# here" in shown.content and b"ValueError" in shown.content
    assert b"hunter2" not in shown.content
    page = get(server, path, "Accept: text/html")
    assert page.get("content-type") == "text/html; charset=utf-8"
    assert b'<b class="line">' in page.content and b"<script" not in page.content
    assert (page.get("content-security-policy") or "").startswith("default-src 'none';")
    server.close()
    assert server.errors.count("# here") == 2


@pytest.mark.parametrize(("text", "path"), [(NATIVE, "/boom"), (ASGI, "/"), (WSGI, "/")])
def test_others_get_what_they_get_without_it(
    start: Start, tmp_path: Path, text: str, path: str
) -> None:
    server = begin(start, tmp_path, text)
    replies = [
        get(server, path, host="evil.example"),
        get(server, path, "X-Forwarded-For: 192.0.2.1"),
        get(server, path, "X-Forwarded-For: 127.0.0.1"),
        get(server, path, version="1.0"),
    ]
    for reply in replies:
        assert (reply.status, reply.content) == (500, b"500 Internal Server Error\n")


def test_what_was_sent_stays(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, ASGI)
    assert get(server, "/quiet").content == b"quiet"
    with server.connect() as client:
        client.send(b"GET /begun HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = client.read_to_end()
    assert received.startswith(b"HTTP/1.1 200 ") and b"raised" not in received
    assert not received.endswith(b"0\r\n\r\n")


def test_responses_of_handlers_stay_and_slow_steps_are_logged(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, NATIVE)
    assert get(server, "/refuses").status == 418
    assert b"a handler returned object" in get(server, "/bad").content
    assert get(server, "/slow").content == b"True"
    server.wait_line(r"Executing .* took 0\.\d+ seconds")


@pytest.mark.parametrize(
    "where",
    [("--host", "::"), ("--uds", "socket"), ("--bind", "127.0.0.1:0", "--bind", "[::]:0")],
)
def test_other_addresses_are_refused(tmp_path: Path, where: tuple[str, ...]) -> None:
    (tmp_path / "shop.py").write_text(NATIVE)
    port = () if "--bind" in where or "--uds" in where else ("--port", "0")
    code, _, errors = command(
        "serve", "shop.py", *where, *port, cwd=tmp_path, env={"BOLIDE_DEBUG": "1"}
    )
    assert (code, errors.count("\n")) == (2, 1)
    assert "debug shows tracebacks and source, so it is only for addresses of loopback" in errors
    assert not (tmp_path / "socket").exists()


def test_a_passed_socket_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(NATIVE)
    with socket.create_server(("", 0)) as passed:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bolide",
                "serve",
                "shop.py",
                "--debug",
                "--bind",
                f"fd:{passed.fileno()}",
            ],
            cwd=tmp_path,
            pass_fds=[passed.fileno()],
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert done.returncode == 2 and "only for addresses of loopback" in done.stderr


def test_the_start_says_it_however_it_was_set(start: Start, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(NATIVE)
    server = start("shop.py", cwd=tmp_path, env={"BOLIDE_DEBUG": "1"})
    assert "debug is on: clients on this machine see tracebacks" in "".join(server.lines)


def test_a_broken_application_is_shown_with_its_traceback(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, "1 / 0  # here <b>\n", "--reload")
    assert b"1 / 0  # here <b>" in get(server, "/").content
    assert b"# here &lt;b&gt;" in get(server, "/", "Accept: text/html").content
    hidden = get(server, "/", host="evil.example")
    assert hidden.status == 500 and b"here" not in hidden.content


@pytest.mark.browser
@pytest.mark.timeout(120)
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_a_browser_runs_nothing_of_a_hostile_request(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, NATIVE)
    query = "<script>document.title='owned'</script>=<img src=x onerror=alert(1)>"
    url = f"{server.urls[0]}/boom?{query}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/b"]
    done = subprocess.run(
        [str(BROWSER), *options, "--dump-dom", url], capture_output=True, text=True, timeout=100
    )
    assert "<title>ValueError:" in done.stdout and '<b class="line">' in done.stdout
    assert "<script" not in done.stdout and "<img" not in done.stdout
    assert "Content Security Policy" not in done.stderr  # the style is applied
