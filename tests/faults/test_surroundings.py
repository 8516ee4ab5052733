"""What surrounds a server and changes: logs that are full, clocks that jump, certificates."""

from __future__ import annotations

import glob
import os
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.conftest import Matrix, scaled
from faults.test_crashes import wait_responses
from faults.traffic import Traffic
from support.server import Server
from support.waiting import wait_until
from tls.authority import Authority

pytestmark = pytest.mark.alone


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "bolide-faults", folder],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.timeout(120)
def test_a_disk_that_is_full(matrix: Matrix, small: Path) -> None:
    """Row 15: the log is complete until the disk is full, and again when there is room."""
    log, filler = small / "access.log", small / "filler"
    filler.write_bytes(b"x" * 900_000)
    server = matrix.start("native", "--access-log", str(log))
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(8, *("/quick",) * 16, pause_s=0.005)
        server.wait_line("cannot be written|No space left", timeout_s=60)
        wait_responses(matrix, scaled(5000, 1000))
        filler.unlink()
        size = log.stat().st_size
        wait_until(lambda: log.stat().st_size > size + 20_000)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    warnings = sum("No space left" in line for line in server.lines)
    compared = matrix.compare()
    lines = log.read_text().splitlines()
    notices = [
        re.fullmatch(r"bolide: (\d+) access log lines were lost: .*", line) for line in lines
    ]
    dropped = sum(int(notice[1]) for notice in notices if notice)
    whole = sum(bool(re.fullmatch(r'\S+ - - \[.*\] "GET .*" 200 .*', line)) for line in lines)
    matrix.record(
        15,
        f"tmpfs of 1 MiB: {compared}; {warnings} warnings; {whole:,} lines and {dropped:,} counted",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused
    assert warnings == 1
    # The line that met the full disk is there in part, and counted as lost.
    assert len(lines) - whole - sum(map(bool, notices)) <= 1
    assert whole + dropped == compared.complete


@pytest.mark.parametrize("kind", ["/dev/full", "pipe"])
def test_a_log_that_takes_nothing(matrix: Matrix, kind: str, tmp_path: Path) -> None:
    """Row 15: every write of the log fails, or its reader has left."""
    log = Path(kind)
    if kind == "pipe":
        log = tmp_path / "pipe"
        os.mkfifo(log)
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    server = matrix.start("native", "--access-log", str(log))
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(8, "/quick", pause_s=0.001)
        if kind == "pipe":
            wait_responses(matrix, 50)
            os.close(reader)
        wait_responses(matrix, scaled(5000, 500))
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    warnings = [line for line in server.lines if "access log" in line or "dropped" in line]
    compared = matrix.compare()
    matrix.record(15, f"{kind}: {compared}; {len(warnings)} warnings", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    assert 1 <= len(warnings) <= 3, warnings


SLEEP = """
import threading, time
# clock_nanosleep(2) fails in libfaketime 0.9.10 if it leaves the monotonic clock alone.
time.sleep = lambda seconds: threading.Event().wait(seconds)
"""


def faketime() -> str:
    """Return the library that gives a process another clock."""
    found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if not found:
        pytest.skip("libfaketime is not installed")
    return found[0]


@pytest.mark.matrix
@pytest.mark.timeout(120)
@pytest.mark.parametrize("jump", ["+3600", "-3600"])
def test_a_clock_that_jumps(matrix: Matrix, tmp_path: Path, jump: str) -> None:
    """Row 17: the wall clock jumps under load for Python: no timeout or lifetime follows it.

    The core reads its clocks without the C library: crates/net/src/clock.rs tests them.
    """
    clock = tmp_path / "clock"
    clock.write_text("+0")
    (tmp_path / "sitecustomize.py").write_text(SLEEP)
    env = {
        "PYTHONPATH": str(tmp_path),
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    limits = (
        "--keep-alive-timeout-ms=2500",
        "--worker-timeout-ms=2000",
        "--worker-lifetime-s=1800",
    )
    server = matrix.start("native", *limits, env=env)
    workers = server.workers()
    with Traffic(server, matrix.ledger) as traffic, server.connect() as idle:
        traffic.add(4, "/work?ms=20", pause_s=0.01)
        idle.get("/quick?id=idle")
        begun = time.monotonic()
        clock.write_text(jump)
        wait_until(lambda: abs(offset_s(server) - int(jump)) < 5)
        assert idle.is_at_end()
        idle_s = time.monotonic() - begun
        wait_responses(matrix, 100)
        clock.write_text("+0")
        wait_until(lambda: abs(offset_s(server)) < 5)
        wait_responses(matrix, 100)
    compared = matrix.compare()
    matrix.record(17, f"{jump} s and back: {compared}; idle for {idle_s:.1f} s", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    assert 2 < idle_s < 6
    assert server.workers() == workers, "".join(server.lines)


def offset_s(server: Server) -> float:
    """Return how far the application's clock is from this process's."""
    with server.connect() as connection:
        return float(connection.get("/clock").content) - time.time()


@pytest.mark.timeout(180)
def test_certificates_that_change_under_load(matrix: Matrix, tmp_path: Path) -> None:
    """Row 25: valid, mismatching, expired and missing files, one after the other."""
    authority = Authority()
    files = authority.issue(tmp_path, "localhost", "127.0.0.1", common_name="first")
    server = matrix.start("native", *files.options, "--workers", "2")
    rounds = scaled(10, 1)
    with Traffic(server, matrix.ledger, authority.client()) as traffic:
        traffic.add(2, "/work?ms=10", pause_s=0.01)
        traffic.add(4, "/work?ms=10", is_kept=False, pause_s=0.01)
        wait_responses(matrix, 20)
        for number in range(rounds):
            folder = tmp_path / f"round{number}"
            folder.mkdir()
            files.key.write_text("broken")
            server.signal(signal.SIGHUP)
            server.wait_line("ERROR bolide: .*")
            wait_responses(matrix, 20)
            files.replace(
                authority.issue(folder, "localhost", "127.0.0.1", common_name=f"name{number}")
            )
            server.signal(signal.SIGHUP)
            server.wait_line(r"reloaded in")
            wait_until(lambda number=number: name_of(traffic) == f"name{number}")
            wait_responses(matrix, 20)
    compared = matrix.compare()
    matrix.record(25, f"{rounds} broken and {rounds} new: {compared}", len(compared.lost))
    assert not compared.lost and not compared.wrong and not compared.refused
    assert not compared.reset


def name_of(traffic: Traffic) -> str:
    """Return the common name that the server shows."""
    with traffic.connect() as connection:
        assert isinstance(connection.socket, ssl.SSLSocket)
        subject = dict(part[0] for part in connection.socket.getpeercert()["subject"])  # type: ignore
    return str(subject["commonName"])


@pytest.mark.timeout(180)
def test_signals_that_come_together(matrix: Matrix) -> None:
    """Row 28: HUP, TTIN, TTOU, USR1 and CHLD in bursts; workers serve all the time."""
    server = matrix.start("native", "--workers", "2")
    storm = [signal.SIGHUP, signal.SIGTTIN, signal.SIGCHLD, signal.SIGTTOU, signal.SIGUSR1]
    bursts = scaled(50, 5)
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(8, "/work?ms=10", pause_s=0.005)
        wait_responses(matrix, 50)
        for burst in range(bursts):
            for number in storm[burst % 5 :] + storm[: burst % 5]:
                server.signal(number)
            wait_responses(matrix, 50)
            assert server.workers(), "no worker"
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(server.workers()) == 2, patience_s=30)
        for number in (*storm, signal.SIGTERM, *storm):
            server.signal(number)
        assert server.wait() == 0, server.errors
    compared = matrix.compare()
    matrix.record(28, f"{bursts} bursts of 5, then TERM among them: {compared}", len(compared.lost))
    assert not compared.lost and not compared.wrong


def test_workers_have_seeds_of_their_own(matrix: Matrix, tmp_path: Path) -> None:
    """Row 26: random numbers of workers differ, although they are forked from one process."""
    (tmp_path / "app.py").write_text(
        "import os, random, uuid\nimport bolide\napp = bolide.App()\n"
        "@app.get('/')\n"
        "def numbers(request): return f'{os.getpid()} {random.random()} {uuid.uuid4()}'\n"
    )
    server = matrix.start("app", "--workers", "3", "--preload", cwd=tmp_path)
    first: dict[bytes, tuple[bytes, bytes]] = {}
    end = time.monotonic() + 20
    while len(first) < 3 and time.monotonic() < end:
        with server.connect() as connection:
            pid, number, identity = connection.get("/").content.split()
            first.setdefault(pid, (number, identity))
    matrix.record(26, f"{len(first)} workers: {len({*first.values()})} different first numbers")
    assert len({number for number, _ in first.values()}) == 3
    assert len({identity for _, identity in first.values()}) == 3
