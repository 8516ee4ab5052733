"""USR2: a new process takes over the sockets, and no request is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolide.server.kernel import has_ended
from bolide.server.supervisor import ONE_STOP_S
from support import mixed_load
from support.client import Connection
from support.server import READY, Server, Start, children, kill, wait_for_end
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

UPGRADES = 10
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
    if kill(pid):
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
    what = r"ERROR bolide: the upgrade has failed: process \d+ ended: exit status 2; this process"
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
    server.wait_line("SIGUSR2 is ignored: another process is taking over$")
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
    server.wait_line(
        f"the upgrade has failed: process {pid} ended: exit status 0; this process keeps"
    )
    assert get(server.address) == b"old"


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[socket.socket]:
    """Return the socket at which systemd would be notified."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(20)
        yield receiving


@pytest.mark.slow
def test_systemd_learns_the_new_process(
    start: Start, upgraded: Upgrade, notified: socket.socket, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert notified.recv(1000).startswith(b"READY=1\n")
    pid = upgraded(server)
    assert notified.recv(1000).startswith(b"RELOADING=1\n")
    serving = "STATUS=serving app:app (1 worker)"
    assert notified.recv(1000).decode() == f"MAINPID={pid}\nREADY=1\n{serving}"
    assert server.process.wait(timeout=20) == 0
    os.kill(pid, signal.SIGTERM)
    assert notified.recv(1000).startswith(b"STOPPING=1\n")
    assert wait_for_end(pid)


@pytest.mark.slow
def test_a_new_process_that_fails_notifies_systemd_of_nothing(
    start: Start, notified: socket.socket, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    write(tmp_path, "a newer one", "raise LookupError('broken')")
    server.signal(signal.SIGUSR2)
    server.wait_line("the upgrade has failed")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    states = [notified.recv(1000).split(b"\n")[0] for _ in range(4)]
    assert states == [b"READY=1", b"RELOADING=1", b"READY=1", b"STOPPING=1"]


@pytest.mark.slow
def test_an_upgrade_that_would_end_the_service_is_refused(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As systemd starts a service of Type=exec.
    run_as_service = ("sh", "-c", 'SYSTEMD_EXEC_PID=$$ exec "$@"', "sh")
    monkeypatch.setattr(Server, "within", run_as_service)
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    server.signal(signal.SIGUSR2)
    server.wait_line("SIGUSR2 is ignored: systemd ends the service with its first process; give")
    assert get(server.address) == b"old"


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
        assert notified.recv(1000).startswith(f"MAINPID={pid}\nREADY=1\n".encode())
        assert notified.recv(1000) == b"WATCHDOG=1"


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


HANGING = """
import time
print("starting", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
"""


def hanging(folder: Path, version: str) -> Callable[[], object]:
    """Write an application whose import waits; return what ends that."""
    write(folder, version, HANGING)
    return (folder / "go").touch


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, signal.SIGSTOP])
def test_a_new_process_that_hangs_is_ended(start: Start, tmp_path: Path, number: int) -> None:
    write(tmp_path, "old")
    options = ("--upgrade-timeout-ms", "1500", "--graceful-timeout-ms", "500", "--pid-file", "pid")
    server = start("app:app", *options, cwd=tmp_path)
    hanging(tmp_path, "never")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    os.kill(pid, number)
    why = r"does not serve after 1.5 s \(--upgrade-timeout-ms 1500\); this process keeps serving"
    server.wait_line(rf"ERROR bolide: the upgrade has failed: process {pid} {why}")
    assert wait_for_end(pid)
    assert get(server.address) == b"old"
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
    write(tmp_path, "another")
    server.signal(signal.SIGHUP)
    server.wait_line("reloaded in")


@pytest.mark.slow
def test_a_pid_file_that_cannot_be_written_fails_the_upgrade(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    folder = tmp_path / "run"
    folder.mkdir()
    where = str(tmp_path / "socket")
    server = start("app:app", "--uds", where, "--pid-file", str(folder / "pid"), cwd=tmp_path)
    (folder / "pid").unlink()
    folder.rmdir()
    server.signal(signal.SIGUSR2)
    server.wait_line("bolide: error: this process has not taken over: cannot write the pid file")
    server.wait_line(
        "the upgrade has failed: process .* ended: exit status 2; this process keeps serving"
    )
    assert get(where) == b"old"


@pytest.mark.slow
def test_the_new_process_is_started_as_the_first_one_was(
    start: Start, upgraded: Upgrade, tmp_path: Path
) -> None:
    more = "SEEN = os.environ.get('CHANGED', 'nothing')\nos.environ['CHANGED'] = 'by it'\n"
    write(tmp_path, "old", f"{more}os.chdir('/')\nVERSION = SEEN")
    server = start("app:app", "--preload", cwd=tmp_path)
    upgraded(server)
    assert server.process.wait(timeout=20) == 0
    assert get(server.address) == b"nothing"


@pytest.mark.slow
def test_links_are_followed_again(start: Start, upgraded: Upgrade, tmp_path: Path) -> None:
    """A release in another place, by a link: its application and its interpreter are used."""
    script = "import sys\nfrom bolide.__main__ import main\nmain()\n"
    for name, options in (("one", ""), ("two", " -Xutf8")):
        release = tmp_path / name
        release.mkdir()
        write(release, name, "VERSION += ' ' + ' '.join(sys.orig_argv[1:2])")
        (release / "bolide").write_text(f"#!{sys.executable}{options}\n{script}")
        (release / "bolide").chmod(0o755)
    current = tmp_path / "current"
    current.symlink_to("one")
    program = [
        "sh",
        "-c",
        'cd "$1" && export PWD && exec ./bolide serve app:app --port 0',
        "sh",
        str(current),
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Server, "within", (*program, "--"))
        server = start("app:app", cwd=tmp_path)
    assert get(server.address) == b"one ./bolide"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(current)
    upgraded(server)
    assert server.process.wait(timeout=20) == 0
    assert get(server.address) == b"two -Xutf8"


@pytest.mark.slow
def test_what_comes_during_an_upgrade_is_passed_on(
    start: Start, upgraded: Upgrade, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    config = tmp_path / "bolide.toml"
    config.write_text("workers = 1\n")
    server = start("app:app", "--access-log", "log", cwd=tmp_path)
    goes_on = hanging(tmp_path, "new")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    try:
        server.wait_line("starting$")
        config.write_text("workers = 2\n")
        server.signal(signal.SIGHUP)
        server.wait_line("the reload begins when the upgrade has ended$")
        (tmp_path / "log").rename(tmp_path / "log.1")
        server.signal(signal.SIGUSR1)
        server.wait_line("the access log log was opened again$")
        goes_on()
        server.wait_line(rf"1 worker, pid {pid}\)")
        server.wait_line("the access log log was opened again$")
        server.wait_line("reloaded in .*: 2 workers")
        assert get(server.address) == b"new"
        wait_until(lambda: "GET /" in (tmp_path / "log").read_text())
        assert (tmp_path / "log.1").read_text() == ""
    finally:
        for each in (*running_children(pid), pid):
            end(each)


@pytest.mark.slow
def test_the_new_process_serves_if_the_old_one_is_killed(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    where = tmp_path / "socket"
    server = start("app:app", "--uds", str(where), "--pid-file", "pid", cwd=tmp_path)
    goes_on = hanging(tmp_path, "new")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    try:
        server.wait_line("starting$")
        server.signal(signal.SIGKILL)
        assert wait_for_end(server.pid)
        goes_on()
        server.wait_line(f"process {server.pid} ended before it had handed over")
        server.wait_line(rf"pid {pid}[,)]")
        wait_until(lambda: get(str(where)) == b"new")
        assert (tmp_path / "pid").read_text() == f"{pid}\n"
        os.kill(pid, signal.SIGTERM)
        assert wait_for_end(pid)
        assert not where.exists()
    finally:
        for each in (*running_children(pid), pid):
            end(each)


@pytest.mark.slow
def test_an_old_process_whose_parent_has_not_noticed_its_end_has_ended(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    where = tmp_path / "socket"
    server = start("app:app", "--uds", str(where), cwd=tmp_path)
    write(tmp_path, "new")
    server.signal(signal.SIGUSR2)
    pid = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
    try:
        os.kill(server.pid, signal.SIGKILL)  # and it is not waited for: it stays a zombie
        server.wait_line(rf"serving app:app on .* pid {pid}[,)]")
        assert get(str(where)) == b"new"
        assert has_ended(server.pid) and Path(f"/proc/{server.pid}").exists()
    finally:
        for each in (*running_children(pid), pid):
            end(each)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_10_upgrades_lose_nothing(start: Start, tmp_path: Path, workers: str) -> None:
    (tmp_path / "app.py").write_text(mixed_load.APP)
    server = start("app:app", "--workers", workers, "--h2c", "--pid-file", "pid", cwd=tmp_path)
    load = mixed_load.MixedLoad(server)
    pid, upgrades = server.pid, 0
    try:
        while upgrades < UPGRADES or load.is_running:
            os.kill(pid, signal.SIGUSR2)
            new = int(server.wait_line(r"upgrading: process (\d+) starts")[1])
            server.wait_line(rf"pid {new}[,)]")
            assert wait_for_end(pid, timeout_s=30)
            assert (tmp_path / "pid").read_text() == f"{new}\n"
            pid, upgrades = new, upgrades + 1
        wait_until(lambda: len(children(pid)) == int(workers), patience_s=30)
        load.end()
        os.kill(pid, signal.SIGTERM)
        assert wait_for_end(pid)
    finally:
        load.end()
        for each in (*running_children(pid), pid):
            end(each)
    server.wait()
    load.check((tmp_path / "ledger").read_text(), UPGRADES)
    assert "has not drained" not in server.errors and "ERROR" not in server.errors


@pytest.mark.slow
def test_a_pid_file_that_cannot_be_written_is_one_line(start: Start, tmp_path: Path) -> None:
    server = start("basic.py", "--pid-file", str(tmp_path / "no/pid"), ready=False)
    assert server.wait() == 2
    why = f"cannot write the pid file {tmp_path}/no/pid: No such file or directory"
    assert re.fullmatch(rf"bolide: error: {why}\n", server.errors)
