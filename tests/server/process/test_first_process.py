"""The server as the first process of a container: orphans, and signals that come early."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.server import READY, Server, children
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
APP = """
import subprocess
import bolide

app = bolide.App()

@app.get("/orphan")
def orphan(request):
    subprocess.run(["sh", "-c", "sleep 0.2 &"], check=True)
    return "started"

@app.get("/")
def hello(request):
    return "hello"
"""
SLOW = """
import os, sys, time
from importlib.abc import MetaPathFinder

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "bolide.cli":
            print("the command is imported", file=sys.stderr, flush=True)
            while os.path.exists("gate"):
                time.sleep(0.01)
        return None

sys.meta_path.insert(0, Slow())
"""


@cache
def has_namespaces() -> bool:
    try:
        return (
            subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False


class Contained(Server):
    """A server that is the first process of its namespace; `pid` is that of unshare(1)."""

    within = NAMESPACE

    @property
    def first(self) -> int:
        """The supervisor's process id, as it is outside."""
        [pid] = children(self.pid)
        return pid

    def wait_ready(self) -> Server:
        """Wait until it says that it serves."""
        match = self.wait_line(READY.pattern)
        assert match[2] == "1"
        self.urls = match[1].split(", ")
        return self

    def close(self) -> None:
        """End it: the kernel ends a namespace with its first process."""
        if self.process.poll() is None:
            os.kill(self.first, signal.SIGKILL)
        super().close()


class BelowInit(Contained):
    """A server that the first process has started, and that this process waits for."""

    within = (*NAMESPACE, "sh", "-c", '"$@"; exit', "sh")

    def wait_ready(self) -> Server:
        """Wait until it says that it serves."""
        self.urls = self.wait_line(READY.pattern)[1].split(", ")
        return self


@pytest.fixture
def contain(tmp_path: Path) -> Iterator[Callable[..., Contained]]:
    if not has_namespaces():
        pytest.skip("no PID namespace can be made here (unshare)")
    (tmp_path / "app.py").write_text(APP)
    started: list[Contained] = []

    def start(
        *options: str, env: dict[str, str] | None = None, kind: type[Contained] = Contained
    ) -> Contained:
        started.append(kind(["app:app", "--port", "0", *options], tmp_path, env))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_orphans_are_reaped(contain: Callable[..., Contained]) -> None:
    server = contain()
    server.wait_ready()
    [worker] = children(server.first)
    with server.connect() as client:
        assert client.get("/orphan").content == b"started"
    assert len(children(server.first)) == 2
    wait_until(lambda: children(server.first) == [worker])
    os.kill(server.first, signal.SIGTERM)
    assert server.wait() == 0
    assert "ERROR" not in server.errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_drains(contain: Callable[..., Contained], number: signal.Signals) -> None:
    server = contain()
    server.wait_ready()
    os.kill(server.first, number)
    assert server.wait() == 0
    assert server.errors.endswith("stopped\n")


def test_a_stop_that_comes_while_the_command_is_imported_is_not_lost(
    contain: Callable[..., Contained], tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SLOW)
    (tmp_path / "gate").touch()
    server = contain(env={"PYTHONPATH": str(folder)})
    server.wait_line("the command is imported")
    os.kill(server.first, signal.SIGTERM)
    (tmp_path / "gate").unlink()
    assert server.wait() == 0
    assert server.errors.endswith("stopped\n")


@pytest.mark.parametrize(("option", "code"), [("--preload", 0), ("--check", 128 + signal.SIGTERM)])
def test_a_stop_ends_an_import_in_the_first_process(
    contain: Callable[..., Contained], tmp_path: Path, option: str, code: int
) -> None:
    waits = "import sys, threading\nsys.stderr.write('importing\\n')\nthreading.Event().wait()\n"
    (tmp_path / "app.py").write_text(waits)
    server = contain(option)
    server.wait_line("^importing$")
    os.kill(server.first, signal.SIGTERM)
    assert server.wait() == code
    assert server.errors.endswith("stopped while the application was imported\n")


def test_an_upgrade_is_refused(contain: Callable[..., Contained]) -> None:
    server = contain()
    server.wait_ready()
    os.kill(server.first, signal.SIGUSR2)
    server.wait_line("SIGUSR2 is ignored: a container ends with its first process; replace both")
    with server.connect() as client:
        assert client.get("/").content == b"hello"


def test_an_upgrade_is_refused_where_the_init_would_end(contain: Callable[..., Contained]) -> None:
    server = contain(kind=BelowInit)
    server.wait_ready()
    [supervisor] = children(server.first)
    os.kill(supervisor, signal.SIGUSR2)
    server.wait_line("SIGUSR2 is ignored: the container ends when the process that its init has")
    with server.connect() as client:
        assert client.get("/").content == b"hello"
