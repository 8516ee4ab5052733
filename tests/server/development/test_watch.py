"""`bolide serve --reload`, as a developer sees it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from support.server import READY, Server, Start, children, command, wait_for_end
from support.waiting import wait_until
from support.websocket import WebSocket, close_frame

pytestmark = pytest.mark.slow

NATIVE = """
import bolide
app = bolide.App()

@app.get("/")
def index(request):
    return "{version}"
"""
ASGI = """
async def app(scope, receive, send):
    assert scope["type"] == "http"
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"{version}"}})
"""
WSGI = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"{version}"]
"""
FACTORY = (
    NATIVE.replace("app = bolide.App()", "def create_app():\n  app = bolide.App()")
    .replace("\n@app", "\n  @app")
    .replace("\ndef index", "\n  def index")
    .replace("    return", "    return")
    + "  return app\n"
)
LIFESPAN = """
import asyncio, os
import bolide
app = bolide.App()

@app.on_startup
async def start():
    os.write(1, b"start {version}\\n")

@app.on_shutdown
async def end():
    os.write(1, b"end {version}\\n")

@app.get("/")
def index(request):
    return "{version}"

@app.get("/slow")
async def slow(request):
    await asyncio.sleep(0.3)
    return "slow {version}"

@app.get("/never")
async def never(request):
    await asyncio.sleep(3600)

@app.get("/blocks")
def blocks(request):
    import time
    time.sleep(3600)

@app.websocket("/ws")
async def echo(ws):
    async for message in ws:
        await ws.send(message)
"""
RELOADED = r"reloaded in \d+\.\d s"
WATCHING = "reload: watching"


def change(path: Path, text: str) -> None:
    """Save a file as editors do: beside it, and then in its place."""
    other = path.with_name(f".{path.name}.swp")
    other.write_text(text)
    other.replace(path)


def begin(start: Start, folder: Path, text: str, *options: str) -> Server:
    """Serve version 1 of an application, and wait until its folder is watched."""
    (folder / "shop.py").write_text(text.format(version=1))
    # Otherwise Python compiles nothing here if that is set outside.
    server = start("shop.py", "--reload", *options, cwd=folder, env={"PYTHONDONTWRITEBYTECODE": ""})
    ready = next(at for at, line in enumerate(server.lines) if READY.search(line))
    if not any(WATCHING in line for line in server.lines[:ready]):  # of another process
        server.wait_line(WATCHING)
    return server


def content(server: Server, path: str = "/") -> str:
    with server.connect() as client:
        return client.get(path).content.decode()


GATED = """
import importlib, os, sys, time
while not os.path.exists("gate"):
    time.sleep(0.01)
sys.path.remove(os.path.dirname(__file__))
del sys.modules["watchfiles"]
watch = importlib.import_module("watchfiles").watch
"""
"""In place of watchfiles: its watch begins when a file exists."""


def test_a_change_before_the_files_are_watched_is_served(start: Start, tmp_path: Path) -> None:
    """Also while a process that watches replaces one that has ended."""
    gate, other = tmp_path / "gate", tmp_path.with_name(f"{tmp_path.name}-path")
    other.mkdir()
    (other / "watchfiles.py").write_text(GATED)
    (tmp_path / "shop.py").write_text(NATIVE.format(version=1))
    server = start("shop.py", "--reload", cwd=tmp_path, env={"PYTHONPATH": str(other)})
    began_s = time.monotonic()

    def is_served(version: str) -> None:
        change(tmp_path / "shop.py", NATIVE.format(version=version))
        gate.touch()
        server.wait_line("shop.py changed$")
        server.wait_line(RELOADED)
        assert content(server) == version

    is_served("2")
    gate.unlink()
    watcher = next(pid for pid in children(server.pid) if _watches(pid))
    wait_until(lambda: time.monotonic() - began_s > 1.5)  # one that ends sooner stays away
    os.kill(watcher, signal.SIGKILL)
    server.wait_line("reload: what watches the files ended .*; it is started again")
    is_served("3")


@pytest.mark.parametrize(
    ("text", "options"),
    [(NATIVE, ()), (ASGI, ()), (WSGI, ()), (WSGI, ("--threads", "1")), (FACTORY, ("--factory",))],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_change_is_served(
    start: Start, tmp_path: Path, text: str, options: tuple[str, ...], workers: str
) -> None:
    server = begin(start, tmp_path, text, *options, "--workers", workers)
    assert content(server) == "1"
    for version in "23":
        change(tmp_path / "shop.py", text.format(version=version))
        server.wait_line("shop.py changed$")
        server.wait_line(RELOADED)
        assert content(server) == version
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    assert "ERROR" not in server.errors


def test_two_changes_of_one_length_within_a_second_are_served(start: Start, tmp_path: Path) -> None:
    (tmp_path / "prices.py").write_text("PRICE = 1\n")
    server = begin(
        start, tmp_path, "from prices import PRICE\n" + NATIVE.replace('"{version}"', "str(PRICE)")
    )
    for price in "23456":
        change(tmp_path / "prices.py", f"PRICE = {price}\n")
        server.wait_line("prices.py changed$")
        server.wait_line(RELOADED)
        assert content(server) == price
    assert list(tmp_path.glob("__pycache__/prices.*.pyc")), "nothing is compiled here"


def test_a_broken_application_gets_an_error_until_it_is_repaired(
    start: Start, tmp_path: Path
) -> None:
    server = begin(start, tmp_path, NATIVE)
    for broken, said in (
        ("import bolide\n1 / 0  # here\n", "ZeroDivisionError"),
        ("def\n", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("other = 1\n", "has no attribute 'app'"),
        (NATIVE + '\n@app.on_startup\ndef start():\n    {}["key"]\n', "KeyError"),
    ):
        change(tmp_path / "shop.py", broken)
        server.wait_line(f"ERROR bolide: .*{said}.*; it is tried again when a file changes$")
        with server.connect() as client:
            reply = client.get("/anything")
        assert reply.status == 500 and b"tried again when a file changes" in reply.content
        assert b"Error" not in reply.content
        server.wait_line(
            r"INFO  bolide: restarted in .* s: 1 worker shows the error until a file changes$"
        )
        change(tmp_path / "shop.py", NATIVE.format(version=said))
        server.wait_line("shop.py changed$")
        wait_until(lambda said=said: content(server) == said)  # type: ignore[misc]
    assert "    1 / 0  # here\n" in server.lines


def test_an_application_that_is_broken_at_the_start_is_waited_for(
    start: Start, tmp_path: Path
) -> None:
    server = begin(start, tmp_path, "import missing_module\n")
    with server.connect() as client:
        assert client.get("/").status == 500
    change(tmp_path / "shop.py", NATIVE.format(version=2))
    server.wait_line(RELOADED)
    assert content(server) == "2"


def test_a_target_that_does_not_exist_at_the_start_is_a_mistake(tmp_path: Path) -> None:
    code, _, errors = command("serve", "missing:app", "--reload", "--port", "0", cwd=tmp_path)
    assert (code, errors.count("\n")) == (2, 1)
    assert "no module named 'missing'" in errors


def test_a_burst_of_changes_is_one_restart(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, NATIVE)
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text("x = 1\n")
    change(tmp_path / "shop.py", NATIVE.format(version=2))
    server.wait_line(r"m0\.py, m1\.py, m10\.py and \d+ more changed$")
    server.wait_line(RELOADED)
    assert content(server) == "2"
    assert server.is_silent(0.3)


def test_a_change_while_the_application_is_imported_starts_again(
    start: Start, tmp_path: Path
) -> None:
    server = begin(start, tmp_path, NATIVE)
    os.mkfifo(tmp_path / "pipe")
    change(tmp_path / "shop.py", "open('pipe').read()\n" + NATIVE.format(version=2))
    fd = os.open(tmp_path / "pipe", os.O_WRONLY)  # when it is being imported
    try:
        change(tmp_path / "shop.py", NATIVE.format(version=3))
        server.wait_line(RELOADED)
        assert content(server) == "3"
    finally:
        os.close(fd)


def test_files_of_editors_and_caches_change_nothing(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, NATIVE, "--reload-exclude", "tests")
    (tmp_path / "tests").mkdir()
    for name in (".shop.py.swp", "4913", "shop.py~", "notes.txt", "tests/test_shop.py"):
        (tmp_path / name).write_text("1 / 0\n")
    assert server.is_silent(0.5)
    change(tmp_path / "shop.py", NATIVE.format(version=2))
    server.wait_line("INFO  bolide: shop.py changed$")


def test_requests_in_flight_finish_and_the_shutdown_runs(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, LIFESPAN)
    with server.connect() as client, WebSocket(server.address) as socket:
        socket.open("/ws")
        client.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        change(tmp_path / "shop.py", LIFESPAN.format(version=2))
        assert socket.frame().content[:2] == (1012).to_bytes(2)
        socket.send(close_frame(1012))
        assert client.read().content == b"slow 1"
    server.wait_line(RELOADED)
    assert content(server, "/slow") == "slow 2"
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read().split("\n")[:-1] == ["start 1", "end 1", "start 2", "end 2"]


@pytest.mark.parametrize(("path", "status"), [("/never", 503), ("/blocks", None)])
def test_a_handler_that_hangs_delays_neither_a_restart_nor_the_end(
    start: Start, tmp_path: Path, path: str, status: int | None
) -> None:
    server = begin(start, tmp_path, LIFESPAN)
    with server.connect() as client, server.connect() as other:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        change(tmp_path / "shop.py", LIFESPAN.format(version=2))
        server.wait_line("shop.py changed$")
        other.socket.settimeout(5)
        wait_until(lambda: content(server) == "2", 5)
        if status:
            assert client.read().status == status
    server.wait_line(RELOADED)
    with server.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        processes = children(server.pid)
        server.signal(signal.SIGINT)
        server.process.wait(timeout=5)
    assert server.wait() == 0
    assert all(wait_for_end(pid) for pid in processes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    server = begin(start, tmp_path, NATIVE)
    processes = children(server.pid)
    assert len(processes) == 2
    server.signal(number)
    assert server.wait() == (0 if number != signal.SIGKILL else -signal.SIGKILL)
    assert all(wait_for_end(pid) for pid in processes)


def test_what_watches_the_files_is_started_again(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, NATIVE)
    watcher = next(pid for pid in children(server.pid) if _watches(pid))
    while not server.is_silent(1.0):  # one that ended at once would not be started again
        pass
    os.kill(watcher, signal.SIGKILL)
    server.wait_line(r"WARN  bolide: reload: what watches the files ended \(signal SIGKILL\)")
    server.wait_line(WATCHING)
    change(tmp_path / "shop.py", NATIVE.format(version=2))
    server.wait_line(RELOADED)
    assert content(server) == "2"


def _watches(pid: int) -> bool:
    """Return whether a process watches files."""
    return any("inotify" in os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--preload",), "reload and preload are both set"),
        (("--reload-dir", "nowhere"), "'nowhere' is not a folder"),
    ],
)
def test_mistakes(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    (tmp_path / "shop.py").write_text(NATIVE)
    code, _, errors = command("serve", "shop.py", "--reload", *options, cwd=tmp_path)
    assert (code, errors.count("\n")) == (2, 1)
    assert said in errors


def test_without_watchfiles_one_line_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(NATIVE)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['watchfiles'] = None\n")
    code, _, errors = command(
        "serve", "shop.py", "--reload", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    )
    assert (code, errors) == (
        2,
        "bolide: error: reload: watchfiles is not installed; pip install 'bolide[reload]' or "
        "leave the option out\n",
    )


def test_an_application_object_cannot_be_imported_again(tmp_path: Path) -> None:
    from bolide.errors import ConfigError
    from bolide.start import run

    async def app(scope: object, receive: object, send: object) -> None:
        pass

    with pytest.raises(ConfigError, match=r'as in bolide\.run\("main:app", reload=True\)$'):
        run(app, reload=True)
