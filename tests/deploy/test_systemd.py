"""The units for systemd: what systemd thinks of them, and what their server does."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.files import UNIT, unit
from deploy.ledger import Ledger
from support.client import Connection
from support.server import Server, command
from support.waiting import wait_until

pytestmark = pytest.mark.slow

SOCKET = UNIT.with_suffix(".socket")
EXPOSURE_MAX = 20
"""Of 100: what `systemd-analyze security` computes from what a service may do."""
ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Does what systemd does for a service with a socket."""
RESTARTS = 3
BATCH = 40


class Service(Server):
    """The unit's command with a socket, as systemd runs it."""

    def __init__(self, listening: socket.socket, folder: Path, env: dict[str, str]) -> None:
        self.fds = (listening.fileno(),)
        self.within = (*self.within, sys.executable, "-c", ACTIVATED, str(listening.fileno()))
        words = shlex.split(unit(UNIT)["ExecStart"])
        runtime = f"/run/{unit(UNIT)['RuntimeDirectory']}"
        arguments = [word.replace(runtime, str(folder)) for word in words[2:]]
        super().__init__(arguments, folder, env)

    @property
    def address(self) -> str:
        """The socket, whose file is not the server's."""
        return self.urls[0].removeprefix("unix:")


class Traced(Service):
    """The same, with a record of its system calls."""

    def __init__(self, listening: socket.socket, folder: Path, env: dict[str, str]) -> None:
        self.trace = folder / "trace"
        followed = ("strace", "--follow-forks", "--seccomp-bpf", "--quiet=all", "-e", "signal=none")
        self.within = (*followed, f"--output={self.trace}")
        super().__init__(listening, folder, env)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose name is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="bolide-") as name:
        yield Path(name)


@pytest.fixture
def listening(folder: Path) -> Iterator[socket.socket]:
    """Return the socket of the socket unit."""
    name = Path(unit(SOCKET)["ListenStream"]).name
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(folder / name))
        found.listen(int(unit(SOCKET)["Backlog"]))
        yield found


def test_the_page_has_the_units() -> None:
    page = (Path(__file__).parents[2] / "docs/deploy/systemd.md").read_text()
    for path in (UNIT, SOCKET):
        assert f"```ini\n{path.read_text()}```\n" in page


@pytest.mark.parametrize(
    ("name", "value"), [("OOMPolicy", "continue"), ("StartLimitIntervalSec", "0")]
)
def test_neither_a_killed_worker_nor_failed_starts_end_the_service(name: str, value: str) -> None:
    assert unit(UNIT)[name] == value
    page = (Path(__file__).parents[2] / "docs/tutorial/deployment.md").read_text()
    assert f"\n{name}={value}\n" in page


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units_and_what_the_service_may_do(tmp_path: Path) -> None:
    program = unit(UNIT)["ExecStart"].split()[0]
    bolide = Path(sys.executable).parent / "bolide"
    for path in (UNIT, SOCKET):
        (tmp_path / path.name).write_text(path.read_text().replace(program, str(bolide)))
    named = [str(tmp_path / path.name) for path in (UNIT, SOCKET)]
    done = subprocess.run(
        ["systemd-analyze", "verify", *named], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "shop." in line]
    assert (done.returncode, ours) == (0, [])
    threshold = f"--threshold={EXPOSURE_MAX}"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", threshold, named[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_restart_loses_no_request(listening: socket.socket, folder: Path) -> None:
    ledger = Ledger(folder)
    address = listening.getsockname()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(folder / "notify"))
        notified.settimeout(30)
        watchdog_us = int(unit(UNIT)["WatchdogSec"]) * 1_000_000
        env = {
            **ledger.environ,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": str(watchdog_us),
        }
        with ledger.load(lambda: address):
            for _ in range(RESTARTS):
                served = ledger.finished()
                server = Service(listening, folder, env)
                try:
                    assert notified.recv(4096).startswith(b"READY=1")
                    wait_until(lambda end=served + BATCH: ledger.finished() > end, patience_s=30)
                    at = f"unix:{folder / 'management.sock'}"
                    done = command("status", "--check", "--management", at, cwd=folder)
                    assert done == (0, "serving\n", "")
                    server.signal(signal.SIGTERM)
                    assert server.wait() == 0
                    while not (last_word := notified.recv(4096)).startswith(b"STOPPING=1"):
                        assert last_word == b"WATCHDOG=1"
                finally:
                    server.close()
            last = Service(listening, folder, ledger.environ)
            last.wait_ready()
        last.signal(signal.SIGTERM)
        assert last.wait() == 0
        last.close()
    ledger.check()


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_system_calls_are_those_that_the_unit_allows(
    listening: socket.socket, folder: Path
) -> None:
    Ledger(folder)
    server = Traced(listening, folder, {"LEDGER": "ledger"})
    try:
        server.wait_line("serving shop.py ", timeout_s=50)
        with Connection(listening.getsockname()) as client:
            assert client.get("/work/1").content == b"1"
        at = f"unix:{folder / 'management.sock'}"
        assert command("stop", "--management", at, cwd=folder)[0] == 0
        server.wait()
    finally:
        server.close()
    trace = server.trace.read_text()
    used = set(re.findall(r"^\d+ +(\w+)\(", trace, re.M))
    assert {"accept4", "epoll_ctl", "sendto"} <= used
    assert used - allowed_calls(unit(UNIT)["SystemCallFilter"]) == set()
    families = set(re.findall(r"socket\((AF_\w+)", trace))
    assert families <= {*unit(UNIT)["RestrictAddressFamilies"].split()}


def allowed_calls(group: str) -> set[str]:
    """Return the system calls of a group of systemd, those of groups in it included."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
    )
    words = [line.strip() for line in done.stdout.splitlines() if line.startswith(" ")]
    found = {word for word in words if re.fullmatch(r"\w+", word)}
    for each in words:
        if re.fullmatch(r"@[\w-]+", each):
            found |= allowed_calls(each)
    return found
