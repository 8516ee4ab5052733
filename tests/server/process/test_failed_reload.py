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
