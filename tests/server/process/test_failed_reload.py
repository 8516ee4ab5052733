"""A reload that fails when it has added workers, or is to leave fewer."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.client import Connection
from support.management import Managed
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = """
import asyncio, os
import bolide

app = bolide.App()

@app.get("/pid")
def pid(request):
    return str(os.getpid())

@app.get("/held")
async def held(request):
    while not os.path.exists("release"):
        await asyncio.sleep(0.05)
    return str(os.getpid())
"""
FIFTH_FAILS = """
import time
imports = os.open("imports", os.O_CREAT | os.O_RDWR | os.O_APPEND)
os.write(imports, b"%d " % os.getpid())
while len(first := os.pread(imports, 1000, 0).split()[:5]) < 5:
    time.sleep(0.01)  # all five start at the same time, and the one of worker 1 first
if os.getpid() == max(map(int, first)):
    with open("gate") as gate:
        gate.read()
    raise LookupError("broken")
"""


def serving(managed: Managed) -> set[int]:
    """Return the workers of which the supervisor knows that they serve."""
    workers = managed.status()["workers"]
    return {each["pid"] for each in workers if each["state"] == "serving"}


def served_by(server: Server) -> bytes:
    with server.connect() as client:
        return client.get("/pid").content


def test_a_worker_that_ends_then_is_replaced_before_those_that_drain_have_ended(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    config, gate = tmp_path / "bolide.toml", tmp_path / "gate"
    config.write_text("workers = 1\n")
    managed = Managed(start, "app:app", cwd=tmp_path)
    server = managed.server
    os.mkfifo(gate)
    (tmp_path / "app.py").write_text(APP + FIFTH_FAILS)
    config.write_text("workers = 5\n")
    server.signal(signal.SIGHUP)
    first = int(server.wait_line(r"worker 1 \(pid (\d+)\) serves; pid \d+ drains")[1])
    wait_until(lambda: len(serving(managed)) == 4)
    others = serving(managed) - {first}
    held: dict[bytes, Connection] = {}
    with ExitStack() as stack:
        while len(held) < 3:
            client = stack.enter_context(server.connect())
            pid = client.get("/pid").content
            if pid not in held and int(pid) in others:
                held[pid] = client
                client.send(b"GET /held HTTP/1.1\r\nHost: test\r\n\r\n")  # it cannot end
        gate.write_text("worker 5 fails")
        server.wait_line("the reload has failed: .*; 4 of 5 workers were replaced$")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: served_by(server) not in held)  # those may serve what came before
        assert {int(pid) for pid in held} < set(server.workers())
        (tmp_path / "release").touch()
        assert {client.read().content for client in held.values()} == set(held)
    wait_until(lambda: len(server.workers()) == 1)


def test_one_to_fewer_workers_leaves_all_that_served(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    config = tmp_path / "bolide.toml"
    config.write_text("workers = 3\n")
    managed = Managed(start, "app:app", cwd=tmp_path)
    before = serving(managed)
    assert len(before) == 3
    config.write_text("workers = 1\n")
    (tmp_path / "app.py").write_text("raise LookupError('broken')\n")
    managed.server.signal(signal.SIGHUP)
    managed.server.wait_line("the reload has failed: .*; no worker was replaced$")
    assert serving(managed) == before == set(managed.server.workers())


HANGS = """
import time

@app.on_startup
def wait():
    while os.path.exists("hangs"):
        time.sleep(0.02)
"""
LATE = r"worker 1 \(pid (\d+)\) has not started in time \(--upgrade-timeout-ms 1000\)"


def hanging(start: Start, folder: Path) -> Managed:
    """Start a server; workers that start later hang while there is a file."""
    (folder / "app.py").write_text(APP + HANGS)
    managed = Managed(start, "app:app", "--upgrade-timeout-ms", "1000", cwd=folder)
    (folder / "hangs").touch()
    return managed


def test_one_whose_worker_hangs_at_its_start_fails(start: Start, tmp_path: Path) -> None:
    managed = hanging(start, tmp_path)
    before = serving(managed)
    managed.server.signal(signal.SIGHUP)
    managed.server.wait_line(f"ERROR bolide: the reload has failed: {LATE}; no worker was replaced")
    assert serving(managed) == before
    wait_until(lambda: set(managed.server.workers()) == before)
    (tmp_path / "hangs").unlink()
    managed.server.signal(signal.SIGHUP)
    managed.server.wait_line("reloaded in .*: 1 worker$")


def test_a_worker_that_hangs_at_its_start_is_started_again(start: Start, tmp_path: Path) -> None:
    managed = hanging(start, tmp_path)
    os.kill(managed.server.workers()[0], signal.SIGKILL)
    managed.server.wait_line("signal SIGKILL; the next one starts in")
    reply = managed.ask("/ready")
    assert (reply.status, reply.content) == (503, b"not ready: no worker is serving\n")
    managed.server.wait_line(rf"ERROR bolide: {LATE}; the next one starts in 0\.\d s$")
    (tmp_path / "hangs").unlink()
    wait_until(lambda: len(serving(managed)) == 1)
    assert managed.ask("/ready").status == 200


def test_a_reload_ends_the_delay_of_a_worker_that_failed_to_start(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", cwd=tmp_path)
    (tmp_path / "app.py").write_text("raise LookupError('broken')\n")
    os.kill(server.workers()[0], signal.SIGKILL)
    server.wait_line("LookupError: broken; the next one starts in 6.4 s$")
    (tmp_path / "app.py").write_text(APP)
    server.signal(signal.SIGHUP)
    took_s = float(server.wait_line(r"reloaded in (\d+\.\d) s: 1 worker$")[1])
    assert took_s < 6
