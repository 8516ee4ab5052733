"""Processes of a fleet on one machine: where they are started, and how they end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.conftest import LOAD_S, AgentProcess, LoadProcess, Processes, addresses, result
from support.server import Server, children
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_files_in_the_current_folder_are_not_executed(
    counting: Server, processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('executed')")
    program = ("-P", "-m", "bolide", "load")  # as the command `bolide` does
    kind = type("LoadProcess", (LoadProcess,), {"program": program})
    url = f"{counting.urls[0]}/page/a"
    words = [url, "--fleet", "local:1", "-c", "2", "-n", "4", "--json", "--quiet"]
    assert result(processes.run(kind, words).ended())["ok"] == 4


def test_a_command_that_is_hung_up_ends_its_agents(
    counting: Server, processes: Processes, tmp_path: Path
) -> None:
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(url, "--fleet", "local:1", "-c", "2", "-d", "60s", "--json")
    run.wait_line("requests/s, p50", LOAD_S)
    [agent] = children(run.pid)
    run.process.send_signal(signal.SIGHUP)
    code, page, written = run.ended()
    assert code == 130, written
    assert json.loads(page)["ok"] > 0
    assert not Path(f"/proc/{agent}").exists()


def test_the_folder_of_an_agent_that_was_killed_is_removed_by_the_next(
    processes: Processes, tmp_path: Path
) -> None:
    _, scheduler = processes.scheduler()
    place = tmp_path / "place"
    place.mkdir()
    code = f"import tempfile; tempfile.tempdir = {str(place)!r}"
    killed = processes.agent(scheduler, "a", code=code)
    [left] = place.glob("bolide-agent-*")
    second = processes.agent(scheduler, "b", code=code)
    assert left in {*place.iterdir()}  # it is in use
    killed.process.kill()
    killed.process.wait(LOAD_S)
    third = processes.agent(scheduler, "c", code=code)
    folders = {*place.iterdir()}
    assert len(folders) == 2 and left not in folders
    for each in (second, third):
        each.process.terminate()
        assert each.process.wait(LOAD_S) == 0
    assert not [*place.iterdir()]


def test_the_start_line_of_an_agent(processes: Processes, tmp_path: Path) -> None:
    _, scheduler = processes.scheduler()
    words = [scheduler, "--name", "a\n\x1b[31m"]
    process = processes.run(AgentProcess, words)
    process.wait_line(r"^agent a\ufffd\ufffd\[31m of ", LOAD_S)
    with open("/dev/full", "wb") as full:
        mute = subprocess.Popen(
            [sys.executable, "-m", "bolide", "agent", scheduler, "--name", "b"], stderr=full
        )
    try:
        wait_until(lambda: len(asyncio.run(addresses(scheduler))) == 2, LOAD_S)
        mute.terminate()
        assert mute.wait(LOAD_S) == 0
    finally:
        mute.kill()
