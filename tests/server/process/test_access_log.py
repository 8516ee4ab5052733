"""USR1: the access log continues in another file, and no line is lost or split."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import Server, Start, clean_environ
from support.waiting import wait_until

pytestmark = pytest.mark.slow

REQUESTS = 6000
ROTATIONS = 8
LINE = re.compile(r'127\.0\.0\.1 - - \[[^]]+\] "GET / HTTP/1\.1" 200 \d+ "-" "[^"]*"\n', re.ASCII)


def get(server: Server, path: str) -> None:
    with server.connect() as client:
        assert client.get(path).status == 200


def reopened(server: Server, log: Path) -> None:
    server.signal(signal.SIGUSR1)
    server.wait_line(f"the access log {log} was opened again$")


def test_the_log_continues_in_another_file(start: Start, tmp_path: Path) -> None:
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    server = start("basic.py", "--access-log", str(log))
    before = server.workers()
    get(server, "/?first")
    wait_until(lambda: "first" in log.read_text())
    log.rename(moved)
    reopened(server, log)
    wait_until(lambda: not has_open(before[0], moved))
    get(server, "/?second")
    wait_until(lambda: "second" in log.read_text())
    assert moved.read_text().count("\n") == log.read_text().count("\n") == 1
    assert server.workers() == before
    assert not has_open(server.pid, moved)


def has_open(pid: int, path: Path) -> bool:
    return any(each.exists() and each.samefile(path) for each in Path(f"/proc/{pid}/fd").iterdir())


def test_workers_that_start_later_use_the_new_file(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("basic.py", "--access-log", str(log), "--requests-max", "1")
    log.rename(tmp_path / "access.log.1")
    reopened(server, log)
    get(server, "/?first")
    pid = int(server.wait_line(r"worker 1 \(pid (\d+)\) serves; pid \d+ drains$")[1])
    assert has_open(pid, log)


def test_workers_of_a_reload_do_not_keep_the_old_file(start: Start, tmp_path: Path) -> None:
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    server = start("basic.py", "--access-log", str(log))
    log.rename(moved)
    server.signal(signal.SIGHUP)
    pid = int(server.wait_line(r"worker 1 \(pid (\d+)\) serves; pid \d+ drains$")[1])
    server.wait_line("reloaded in .*: 1 worker$")
    assert has_open(pid, log)
    assert not has_open(pid, moved) and not has_open(server.pid, moved)


def test_a_file_that_cannot_be_opened_leaves_the_old_one(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "access.log"
    server = start("basic.py", "--access-log", str(log))
    folder.rename(tmp_path / "moved")
    server.signal(signal.SIGUSR1)
    why = f"cannot write the access log {log}: No such file or directory"
    server.wait_line(
        f"ERROR bolide: the access log was not opened again, and the old file is used: {why}$"
    )
    get(server, "/?first")
    wait_until(lambda: "first" in (tmp_path / "moved/access.log").read_text())


WITHOUT_DESCRIPTORS = """
import resource
import bolide

app = bolide.App()
BEFORE = resource.getrlimit(resource.RLIMIT_NOFILE)

@app.get("/none-left")
def none_left(request):
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, BEFORE[1]))
    return "done"

@app.get("/some-left")
def some_left(request):
    resource.setrlimit(resource.RLIMIT_NOFILE, BEFORE)
    return "done"
"""


def test_a_worker_that_had_no_descriptor_left_gets_the_file_later(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(WITHOUT_DESCRIPTORS)
    log = tmp_path / "access.log"
    server = start("app.py", "--access-log", str(log), cwd=tmp_path)
    with server.connect() as client:
        client.get("/none-left")
        wait_until(lambda: "none-left" in log.read_text())
        log.rename(tmp_path / "access.log.1")
        reopened(server, log)
        server.wait_line("keeps the old access log: no descriptor .*; it is asked for again")
        client.get("/some-left")
        wait_until(lambda: has_open(server.workers()[0], log))
        client.get("/?later")
        wait_until(lambda: "later" in log.read_text())


@pytest.mark.parametrize("log", ["off", "-"])
def test_without_a_file_the_signal_is_ignored(start: Start, log: str) -> None:
    server = start("basic.py", "--access-log", log)
    server.signal(signal.SIGUSR1)
    server.wait_line(r"SIGUSR1 is ignored: no log is written to a file \(access_log\)$")
    get(server, "/")


@pytest.mark.alone
@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_line_is_lost_or_split_under_load(start: Start, tmp_path: Path, workers: str) -> None:
    log = tmp_path / "access.log"
    server = start("basic.py", "--access-log", str(log), "--workers", workers)
    load = [server.urls[0], "--requests", str(REQUESTS), "--rate", "3000", "--connections", "8"]
    running = subprocess.Popen(
        [sys.executable, "-m", "bolide", "load", *load, "--json"],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for rotation in range(ROTATIONS):
        wait_until(lambda: log.stat().st_size > 0)
        log.rename(tmp_path / f"access.log.{rotation}")
        reopened(server, log)
    output, _ = running.communicate(timeout=50)
    assert '"failed": 0' in output
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    parts = [path.read_text() for path in tmp_path.glob("access.log*")]
    assert len(parts) == ROTATIONS + 1
    lines = [line for part in parts for line in part.splitlines(keepends=True)]
    assert not [line for line in lines if not LINE.fullmatch(line)]
    # The load may send a few more, such as the first one, which it verifies.
    assert len(lines) >= REQUESTS
