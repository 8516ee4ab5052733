"""`bolide status`, `reload`, `upgrade`, `stop` and `top` with a running server."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from support.management import Managed
from support.server import APPLICATIONS, Start, command
from support.waiting import wait_until

pytestmark = pytest.mark.slow

SLOW = """
import asyncio, pathlib
import bolide

app = bolide.App()

async def wait_for(name):
    while not pathlib.Path(name).exists():
        await asyncio.sleep(0.01)

@app.on_startup
async def start():
    await wait_for("started")

@app.get("/")
async def slow(request):
    pathlib.Path("asked").touch()
    await wait_for("answered")
    return "done"
"""


@pytest.fixture
def managed(start: Start, tmp_path: Path) -> Managed:
    return Managed(start, "basic.py", "--workers", "2", address=f"unix:{tmp_path / 'management'}")


def place(managed: Managed) -> str:
    """Return the address of a management listener, as an option."""
    return f"unix:{managed.address}"


def test_the_status_shows_workers_and_options(managed: Managed, tmp_path: Path) -> None:
    with managed.server.connect() as client:
        client.get("/")
    code, out, errors = command("status", "--management", place(managed), cwd=tmp_path)
    assert (code, errors) == (0, "")
    first, blank, columns, *rest = out.splitlines()
    assert re.fullmatch(rf"Bolide \S+ serving basic.py \(pid {managed.server.pid}, for .*\)", first)
    assert (blank, columns.split()[:3]) == ("", ["worker", "pid", "state"])
    assert [int(line.split()[1]) for line in rest[:2]] == managed.server.workers()
    assert "  workers = 2" in rest
    code, out, _ = command("status", "--json", "--management", place(managed), cwd=tmp_path)
    assert json.loads(out)["pid"] == managed.server.pid


@pytest.mark.parametrize("way", ["variable", "file"])
def test_the_address_is_read_as_the_server_reads_it(
    managed: Managed, tmp_path: Path, way: str
) -> None:
    env = {"BOLIDE_MANAGEMENT": place(managed)} if way == "variable" else {}
    if way == "file":
        (tmp_path / "bolide.toml").write_text(f'management = "{place(managed)}"\n')
    code, out, _ = command("status", cwd=tmp_path, env=env)
    assert code == 0
    assert f"pid {managed.server.pid}" in out


def test_a_reload_ends_when_the_workers_are_replaced(managed: Managed, tmp_path: Path) -> None:
    before = managed.server.workers()
    done = command("reload", "--management", place(managed), cwd=tmp_path)
    assert done == (0, "reloaded\n", "")
    wait_until(lambda: not set(managed.server.workers()) & set(before))


def test_a_reload_that_fails_says_so(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import bolide\napp = bolide.App()\n")
    managed = Managed(start, "app.py", cwd=tmp_path)
    host, port = managed.address
    (tmp_path / "app.py").write_text("broken\n")
    code, out, errors = command("reload", "--management", f"{host}:{port}", cwd=tmp_path)
    assert (code, out) == (3, "")
    assert errors == "bolide: error: the reload has failed; the server's log says why\n"
    assert managed.ask("/ready").status == 200


def test_an_upgrade_ends_when_the_new_process_serves(managed: Managed, tmp_path: Path) -> None:
    old = managed.server.pid
    code, out, errors = command("upgrade", "--management", place(managed), cwd=tmp_path)
    assert (code, errors) == (0, "")
    new = managed.status()["pid"]
    assert out == f"upgraded: process {new} serves, and process {old} drains\n"
    assert managed.status()["took_over"]["pid"] == old != new
    assert managed.server.wait() == 0
    assert command("stop", "--management", place(managed), cwd=tmp_path) == (0, "stopped\n", "")


def test_an_upgrade_that_fails_says_so_and_another_can_follow(start: Start, tmp_path: Path) -> None:
    good = "import bolide\napp = bolide.App()\n"
    (tmp_path / "app.py").write_text(good)
    where = f"unix:{tmp_path / 'management'}"
    managed = Managed(start, "app.py", cwd=tmp_path, address=where)
    pid = managed.server.pid
    (tmp_path / "app.py").write_text("broken\n")
    code, out, errors = command("upgrade", "--management", where, cwd=tmp_path)
    assert (code, out) == (3, "")
    text = "the upgrade has failed, and the old process goes on; the log says why"
    assert errors == f"bolide: error: {text}\n"
    assert managed.ask("/ready").status == 200
    assert managed.status()["upgrades"] == {"begun": 1, "results": {"1": "failed"}}
    (tmp_path / "app.py").write_text(good)
    assert command("upgrade", "--management", where, cwd=tmp_path)[0] == 0
    assert managed.status()["took_over"] == {
        "pid": pid,
        "start_time_s": managed.status()["took_over"]["start_time_s"],
        "upgrade": "2",
    }
    assert command("stop", "--management", where, cwd=tmp_path)[0] == 0


def test_a_stop_ends_with_the_server(managed: Managed, tmp_path: Path) -> None:
    assert command("stop", "--management", place(managed), cwd=tmp_path) == (0, "stopped\n", "")
    assert managed.server.wait() == 0


def test_a_connection_that_breaks_is_not_the_end_of_a_server(tmp_path: Path) -> None:
    status = json.dumps({"pid": 7, "start_time_s": 1.0, "workers": []}).encode()
    responses = [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(status), status),
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"",  # closed without a response, as if it were reset
    ]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def respond() -> None:
            for response in responses:
                peer, _ = listening.accept()
                with peer:
                    peer.recv(4096)
                    peer.sendall(response)

        thread = threading.Thread(target=respond)
        thread.start()
        at = f"127.0.0.1:{listening.getsockname()[1]}"
        code, out, errors = command("stop", "--management", at, "--timeout", "1ms", cwd=tmp_path)
        thread.join()
    assert (code, out) == (3, "")
    assert errors.startswith("bolide: error: the stop has not ended within 0.001 s, and continues;")


def test_top_shows_rates(managed: Managed, tmp_path: Path) -> None:
    is_over = threading.Event()

    def ask() -> None:
        with managed.server.connect() as client:
            while not is_over.is_set():
                client.get("/")
                client.get("/block/40")

    asking = threading.Thread(target=ask)
    asking.start()
    options = ("--management", place(managed), "--interval", "200ms", "-n", "2")
    try:
        code, out, errors = command("top", *options, cwd=tmp_path)
    finally:
        is_over.set()
        asking.join()
    assert (code, errors) == (0, "")
    rates = re.findall(r"^requests +([\d,]+)/s  2xx ([\d,]+)/s$", out, re.M)
    assert len(rates) == 2
    assert all(int(total.replace(",", "")) > 0 for total, _ in rates)
    assert len(re.findall(r"^durations  median <= \S+ ms  99 % <= \S+ m?s$", out, re.M)) == 2
    slowest = r"^slowest +[\d.]+ ms +[\d.]+/s  GET /block/\{milliseconds:int\}$"
    assert len(re.findall(slowest, out, re.M)) == 2
    assert re.search(r"^ *worker .* memory +connections +busy +requests/s$", out, re.M)
    assert "\x1b" not in out


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    code, _, errors = command("status", cwd=tmp_path)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "give --management ADDRESS" in errors
    code, _, errors = command("status", "--management", f"unix:{tmp_path / 'none'}", cwd=tmp_path)
    assert (code, len(errors.splitlines())) == (3, 1)
    assert "No such file or directory; is that the server's --management?" in errors


@pytest.mark.parametrize("host", ["127.0.0.1 ", "shop..internal"])
def test_what_is_no_host_is_one_line(tmp_path: Path, host: str) -> None:
    code, out, errors = command("status", "--management", f"{host}:9000", cwd=tmp_path)
    assert (code, out) == (3, "")
    text = f"cannot reach {host}:9000: {host!r} is not a host; give HOST:PORT"
    assert errors == f"bolide: error: {text}\n"


def test_another_server_is_recognized(start: Start) -> None:
    server = start("basic.py")
    host, port = server.address
    code, _, errors = command("status", "--management", f"{host}:{port}", cwd=APPLICATIONS)
    assert (code, len(errors.splitlines())) == (3, 1)
    assert f"{host}:{port} refuses with 404" in errors


def test_something_else_is_recognized(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def respond() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(b"SSH-2.0-x\r\n")

        responding = threading.Thread(target=respond)
        responding.start()
        port = listening.getsockname()[1]
        code, _, errors = command("stop", "--management", f"127.0.0.1:{port}", cwd=tmp_path)
        responding.join()
    assert (code, len(errors.splitlines())) == (3, 1)
    assert "is not a management listener of Bolide" in errors


def test_a_check_has_an_exit_code_and_one_line(managed: Managed, tmp_path: Path) -> None:
    env = {"BOLIDE_MANAGEMENT": place(managed)}
    assert command("status", "--check", cwd=tmp_path, env=env) == (0, "serving\n", "")
    code, out, errors = command("status", "--check", "--json", cwd=tmp_path, env=env)
    assert (code, out) == (2, "")
    assert errors == "bolide: error: --check prints one line; leave out --json\n"
    managed.server.signal(signal.SIGTERM)
    managed.server.wait()
    code, out, errors = command("status", "--check", cwd=tmp_path, env=env)
    assert (code, out) == (3, "") and errors.startswith("bolide: error: cannot reach ")


def test_a_check_of_a_server_that_starts_or_drains_fails(start: Start, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    gates = [tmp_path / name for name in ("started", "answered")]
    managed = Managed(start, "slow.py", cwd=tmp_path, ready=False)
    at = f"{managed.address[0]}:{managed.address[1]}"

    def checked() -> tuple[int, str, str]:
        return command("status", "--check", "--management", at, cwd=tmp_path)

    refuses = f"bolide: error: {at} refuses with 503: not ready: "
    assert checked() == (3, "", f"{refuses}starting\n")
    gates[0].touch()
    managed.server.wait_ready()
    assert checked() == (0, "serving\n", "")
    with managed.server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_until(lambda: (tmp_path / "asked").exists())
        managed.server.signal(signal.SIGTERM)
        managed.server.wait_line("stopping: ")
        assert checked() == (3, "", f"{refuses}draining\n")
        gates[1].touch()
        assert client.read().status == 200
    assert managed.server.wait() == 0


def test_a_check_notices_another_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def respond() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")

        thread = threading.Thread(target=respond)
        thread.start()
        at = f"127.0.0.1:{listening.getsockname()[1]}"
        code, _, errors = command("status", "--check", "--management", at, cwd=tmp_path)
        thread.join()
    assert code == 3 and "is not a management listener of Bolide" in errors
