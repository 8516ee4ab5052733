"""USR2: a new process takes over the sockets, and no request is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.server.process import upgrade
from bolide.server.supervisor import ONE_STOP_S
from support.client import Connection
from support.server import READY, Server, Start, children, clean_environ, wait_for_end
from support.waiting import wait_until

APP = """
import asyncio, os, sys
import bolide

app = bolide.App()
VERSION = {version!r}
{more}

@app.get("/")
def version(request):
    return VERSION

@app.get("/slow")
async def slow(request):
    print("in flight", file=sys.stderr, flush=True)
    while os.path.exists("gate"):
        await asyncio.sleep(0.01)
    return VERSION
"""

Upgrade = Callable[[Server], int]


def write(folder: Path, version: str, more: str = "") -> None:
    (folder / "app.py").write_text(APP.format(version=version, more=more))


def get(address: tuple[str, int] | str) -> bytes:
    with Connection(address) as client:
        return client.get("/").content


@pytest.fixture
def upgraded() -> Iterator[Upgrade]:
    """Return a function that upgrades a server, and returns the new process."""
    started: list[int] = []

    def run(server: Server) -> int:
        server.signal(signal.SIGUSR2)
        started.append(int(server.wait_line(r"upgrading: process (\d+) starts, and then")[1]))
        assert server.wait_line(READY.pattern)[2] == str(started[-1])
        return started[-1]

    yield run
    for pid in started:
        for each in (pid, *running_children(pid)):
            end(each)


def running_children(pid: int) -> list[int]:
    try:
        return children(pid)
    except FileNotFoundError:
        return []


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_for_end(pid)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["tcp", "unix"])
def test_the_new_process_serves_and_the_old_one_drains(
    start: Start, upgraded: Upgrade, tmp_path: Path, place: str
) -> None:
    write(tmp_path, "old")
    (tmp_path / "gate").touch()
    where = tmp_path / "socket"
    options = ["--uds", str(where)] if place == "unix" else ["--workers", "2"]
    server = start("app:app", *options, "--pid-file", "pid", cwd=tmp_path)
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
    with server.connect() as client, server.connect() as idle:
        assert idle.get("/").content == b"old"
        client.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        write(tmp_path, "a newer one")
        pid = upgraded(server)
        wait_until(lambda: get(server.address) == b"a newer one")
        (tmp_path / "gate").unlink()
        reply = client.read()
        assert (reply.status, reply.content) == (200, b"old")
        assert client.is_closed() and idle.is_closed()
    assert server.process.wait(timeout=20) == 0
    assert (tmp_path / "pid").read_text() == f"{pid}\n"
    assert get(server.address) == b"a newer one"
    assert (place == "unix") == where.exists()
    os.kill(pid, signal.SIGTERM)
    assert wait_for_end(pid)
    assert not where.exists() and not (tmp_path / "pid").exists()
    server.wait()
    assert "ERROR" not in server.errors and "WARN" not in server.errors


@pytest.mark.slow
def test_an_upgrade_can_be_followed_by_another(
    start: Start, upgraded: Upgrade, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    where = tmp_path / "socket"
    server = start("app:app", "--uds", str(where), cwd=tmp_path)
    first = upgraded(server)
    assert server.process.wait(timeout=20) == 0
    os.kill(first, signal.SIGUSR2)
    second = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    try:
        assert wait_for_end(first)
        assert get(str(where)) == b"old"
        os.kill(second, signal.SIGTERM)
        assert wait_for_end(second)
        assert not where.exists()
    finally:
        end(second)


@pytest.mark.slow
def test_a_new_process_that_fails_leaves_the_old_one(
    start: Start, upgraded: Upgrade, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    where = tmp_path / "socket"
    server = start("app:app", "--uds", str(where), "--pid-file", "pid", cwd=tmp_path)
    before = server.workers()
    write(tmp_path, "a newer one", "raise LookupError('broken')")
    server.signal(signal.SIGUSR2)
    server.wait_line("bolide: error: importing app failed: LookupError: broken")
    what = r"ERROR bolide: the upgrade has failed: process \d+ ended: exit status 2; this one goes"
    server.wait_line(what)
    assert server.workers() == before
    assert get(str(where)) == b"old"
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
    write(tmp_path, "the repaired one")
    upgraded(server)
    wait_until(lambda: get(str(where)) == b"the repaired one")


@pytest.mark.slow
def test_one_upgrade_at_a_time_and_a_stop_ends_it(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    write(tmp_path, "never", "import time\nprint('hanging', file=sys.stderr)\ntime.sleep(60)")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    server.wait_line("hanging")
    server.signal(signal.SIGUSR2)
    server.wait_line(f"SIGUSR2 is ignored: process {pid} is taking over already$")
    assert get(server.address) == b"old"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert wait_for_end(pid)


@pytest.mark.slow
def test_a_new_process_that_is_stopped_ends_the_upgrade(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    write(tmp_path, "never", "import time\nprint('hanging', file=sys.stderr)\ntime.sleep(60)")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    server.wait_line("hanging")
    os.kill(pid, signal.SIGTERM)
    server.wait_line(f"the upgrade has failed: process {pid} ended: exit status 0; this one goes")
    assert get(server.address) == b"old"


@pytest.mark.slow
def test_systemd_learns_the_new_process(start: Start, upgraded: Upgrade, tmp_path: Path) -> None:
    write(tmp_path, "old")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(20)
        server = start("app:app", cwd=tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert notified.recv(1000).startswith(b"READY=1\n")
        pid = upgraded(server)
        assert notified.recv(1000).startswith(b"RELOADING=1\n")
        assert notified.recv(1000) == f"MAINPID={pid}\nREADY=1".encode()
        assert server.process.wait(timeout=20) == 0
        os.kill(pid, signal.SIGTERM)
        assert notified.recv(1000).startswith(b"STOPPING=1\n")
        assert wait_for_end(pid)


@pytest.mark.slow
def test_the_new_process_notifies_the_watchdog(
    start: Start, upgraded: Upgrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As systemd does, name the process whose watchdog it is.
    run_as_service = ("sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh")
    monkeypatch.setattr(Server, "within", run_as_service)
    write(tmp_path, "old")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(20)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "600000000"}
        server = start("app:app", cwd=tmp_path, env=environ)
        assert notified.recv(1000).startswith(b"READY=1\n")
        assert notified.recv(1000) == b"WATCHDOG=1"
        pid = upgraded(server)
        assert notified.recv(1000).startswith(b"RELOADING=1\n")
        assert notified.recv(1000) == b"WATCHDOG=1"
        assert notified.recv(1000) == f"MAINPID={pid}\nREADY=1".encode()


@pytest.mark.slow
def test_a_stop_of_both_processes_lets_the_old_one_drain(
    start: Start, upgraded: Upgrade, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    (tmp_path / "gate").touch()
    server = start("app:app", cwd=tmp_path)
    with server.connect() as client:
        client.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        pid = upgraded(server)
        # The line may come before that of the new process, which was waited for.
        wait_until(lambda: "stopping: requests in flight have up to" in server.errors)
        # A signal within this time would be part of the stop, so the first one comes later.
        handed_over = time.monotonic()
        wait_until(lambda: time.monotonic() > handed_over + 2 * ONE_STOP_S)
        for each in (server.pid, pid):
            os.kill(each, signal.SIGTERM)
        server.wait_line("stopping already; a second signal stops now$")
        assert wait_for_end(pid)
        (tmp_path / "gate").unlink()
        reply = client.read()
        assert (reply.status, reply.content) == (200, b"old")
    assert server.process.wait(timeout=20) == 0


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_request_is_lost_by_upgrades(start: Start, tmp_path: Path, workers: str) -> None:
    write(tmp_path, "any")
    server = start("app:app", "--workers", workers, cwd=tmp_path)
    kinds = [["--connections", "8"], ["--connections", "2", "--no-keep-alive"]]
    loads = [
        subprocess.Popen(
            [sys.executable, "-m", "bolide", "load", server.urls[0], *kind, "-d", "6", "--json"],
            env=clean_environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for kind in kinds
    ]
    pid = server.pid
    try:
        for _ in range(3):
            os.kill(pid, signal.SIGUSR2)
            new = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
            assert wait_for_end(pid)
            pid = new
        outputs = [load.communicate(timeout=60)[0] for load in loads]
    finally:
        for each in (*running_children(pid), pid):
            end(each)
    for output in outputs:
        assert '"failed": 0' in output, output


def test_nothing_is_inherited_without_the_variable() -> None:
    assert upgrade.inherited({}, "http") is None


@pytest.mark.parametrize("text", ["x", "{}", '{"pid": 1, "listeners": 3}'])
def test_the_variable_is_no_option(text: str) -> None:
    environ = {upgrade.VARIABLE: text}
    with pytest.raises(ConfigError, match="BOLIDE_INHERITED is set by the server itself when"):
        upgrade.inherited(environ, "http")
    assert not environ


def test_what_is_inherited() -> None:
    fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, True)
    passed = '{"pid": 7, "report_fd": %d, "listeners": [[3, "/a"]], "redirecting": [[4, ""]]}'
    environ = {upgrade.VARIABLE: passed % write_fd, "WATCHDOG_PID": "7"}
    found = upgrade.inherited(environ, "https")
    assert found is not None
    assert [(each.fd, each.path, each.scheme) for each in found.addresses] == [(3, "/a", "https")]
    assert [(each.fd, each.scheme) for each in found.redirecting] == [(4, "http")]
    assert environ == {"WATCHDOG_PID": str(os.getpid())}
    assert not os.get_inheritable(write_fd)
    found.report()
    assert os.read(fd, 100) == upgrade.SERVES
    for each in (fd, write_fd):
        os.close(each)


@pytest.mark.slow
def test_a_pid_file_that_cannot_be_written_is_one_line(start: Start, tmp_path: Path) -> None:
    server = start("basic.py", "--pid-file", str(tmp_path / "no/pid"), ready=False)
    assert server.wait() == 2
    why = f"cannot write the pid file {tmp_path}/no/pid: No such file or directory"
    assert re.fullmatch(rf"bolide: error: {why}\n", server.errors)
