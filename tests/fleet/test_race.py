"""Races whose load a fleet generates: figures, what the record has, and what is no figure."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from bolide.lab.record import journal
from bolide.lab.record.schema import FleetUse, Machine, Study, Trial
from fleet.conftest import Processes
from lab.tiny_race import CPU
from support.server import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# In shorter loads, agents of a busy machine would start too late.
STUDY = """
title = "Tiny"
content = "OK"
duration_s = 3.0
rounds = 1
contestants = ["bolide-wsgi"]
[[workload]]
name = "short"
tools = ["wrk", "bolide"]
connections = 4
[[workload]]
name = "one"
tools = ["bolide"]
connections = 1
"""
OPEN_LOOP = """
[open_loop]
of = "short-bolide"
shares = [0.1]
find = "p99 < 4s"
rounds = 1
duration_s = 3.0
find_duration_s = 0.3
"""
APPLICATION = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"mine"]
"""
LEFT_OUT = [
    "one-bolide is left out: it has fewer connections (1) than the fleet agents (2)",
    "wrk runs on one machine: bolide load generates short",
]
RACE_S = 300


def race(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a race into `out`."""
    cpus = ("--cpus", f"server={CPU}", f"load={CPU}")
    return command("race", *words, *cpus, "--out", "out", cwd=folder, timeout_s=RACE_S)


def records_of(folder: Path) -> tuple[Machine, Study, list[Trial]]:
    found = journal.read(folder / "out")
    machine = next(each for each in found if isinstance(each, Machine))
    study = next(each for each in found if isinstance(each, Study))
    return machine, study, [each for each in found if isinstance(each, Trial)]


def check_use(found: Trial, names: list[str]) -> FleetUse:
    """Check that the sum of what the agents did is the trial's."""
    assert found.fleet is not None and found.failure is None, found
    assert [each.machine.name for each in found.fleet.agents] == names
    assert sum(each.ok or 0 for each in found.fleet.agents) == found.ok
    assert all(each.connections == 2 and each.lost is None for each in found.fleet.agents)
    return found.fleet


def test_an_application_is_loaded_by_agents_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(APPLICATION)
    words = ("--app", "mysite", "--only", "bolide-wsgi", "--quick", "--duration", "3")
    code, output, errors = race(tmp_path, *words, "--fleet", "local:2")
    assert code == 0, errors
    assert f"server and load share processor {CPU}" in errors
    assert re.search(r"^ *agent +machine ", errors, re.M) and "local-1" in errors
    assert "The load came from 2 agents (local:2). Their starts were " in errors
    machine, study, [found] = records_of(tmp_path)
    assert study.remarks == ()
    assert machine.fleet is not None
    assert (machine.fleet.where, machine.fleet.server_address) == ("local:2", "127.0.0.1")
    for number, each in enumerate(machine.fleet.agents):
        assert (each.name, each.host) == (f"local-{number}", socket.gethostname())
        assert each.cpus == 1  # as the race pins them
        assert each.kernel == machine.kernel and each.memory_bytes == machine.memory_bytes
    assert found.fleet is not None and found.fleet.start_skew_us is not None, found
    assert sum(each.ok or 0 for each in found.fleet.agents) == found.ok
    assert found.command[found.command.index("--fleet") + 1] == "local:2"
    assert found.verdict in ("generator-bound", "server-bound", "neither", "noisy")
    code, output, errors = command("race", "report", "out", cwd=tmp_path)
    assert code == 0, errors
    page = (tmp_path / "out" / "report.md").read_text()
    assert "\n## Agents\n" in page and "\n| local-0 | " in page
    assert "from agents on the same machine: no network" in page


def test_agents_of_a_scheduler_run_every_part_of_a_study(
    tmp_path: Path, processes: Processes
) -> None:
    _, scheduler = processes.scheduler()
    for name in ("a", "b"):
        processes.agent(scheduler, name)
    (tmp_path / "tiny.toml").write_text(STUDY + OPEN_LOOP)
    where = ("--fleet", scheduler, "--server-address", "127.0.0.1")
    code, _, errors = race(tmp_path, "tiny.toml", *where)
    assert code == 0, errors
    assert set(LEFT_OUT) <= set(errors.splitlines())
    assert "the agents a, b run on the machine of the servers" in errors
    machine, study, trials = records_of(tmp_path)
    assert study.remarks == tuple(LEFT_OUT)
    names = ["short-bolide", "open-own10-bolide", "open-common10-bolide", "find-bolide"]
    found = {each.workload: each for each in trials}
    assert sorted(found) == sorted(names) and trials[0].workload == names[0]
    for name in names[:3]:
        use = check_use(found[name], ["a", "b"])
        assert use.start_skew_us is not None and use.start_skew_uncertainty_us is not None
    served = found["short-bolide"].served
    assert served is not None and served.connections == 4
    # Agents of a busy machine may have no time for a search, which is no limit of the server then.
    search = found["find-bolide"]
    assert search.failure is None or search.failure.class_ == "fleet", search
    assert machine.fleet is not None and machine.fleet.server_address == "127.0.0.1"
    where = ("--fleet", "local:2", "--resume")
    code, _, errors = race(tmp_path, "tiny.toml", *where)
    says = "out has another race (load from 2 agents (a@"
    assert code == 2 and says in errors, errors


KILLED = """
import os, signal, threading
import bolide.fleet.job as module
class Job(module.Job):
    runs = 0
    def begins(self, at_ns):
        super().begins(at_ns)
        Job.runs += 1
        if Job.runs == 2:  # the first is that before the race
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
module.Job = Job
"""


def test_an_agent_that_is_lost_leaves_no_figure(tmp_path: Path, processes: Processes) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    processes.agent(scheduler, "b", code=KILLED)
    (tmp_path / "tiny.toml").write_text(STUDY)
    where = ("--fleet", scheduler, "--server-address", "127.0.0.1")
    code, _, errors = race(tmp_path, "tiny.toml", *where, "--duration", "60")
    assert code == 3 and "no trial has a figure" in errors
    _, _, [found] = records_of(tmp_path)
    assert found.failure is not None and found.failure.class_ == "fleet"
    assert found.failure.message.startswith("agent b was lost: ")
    assert (found.ok, found.requests_per_s, found.verdict) == (None, None, "failed")
    assert found.fleet is not None and found.fleet.invalid[0] in found.failure.message
    first, second = found.fleet.agents
    assert (first.lost, second.ok) == (None, None) and second.lost


def test_agents_that_do_not_reach_the_server_end_the_race_before_it_starts(
    tmp_path: Path, processes: Processes
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a", "--allow", "127.0.0.9")
    (tmp_path / "tiny.toml").write_text(STUDY)
    where = ("--fleet", scheduler, "--server-address", "127.0.0.1")
    code, _, errors = race(tmp_path, "tiny.toml", *where)
    assert code == 2
    [line] = errors.splitlines()
    cause = "agent a: 127.0.0.1 is not in what it may load (--allow): 127.0.0.9/32. "
    assert line.startswith(f"bolide: error: the load of a first request failed: {cause}")
    assert "each agent has to be started with an --allow (and --port) that contains it" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--server-address", "10.0.0.5"), "--server-address is for a fleet; give --fleet too"),
        (("--agents", "2"), "--agents is for a fleet; give --fleet too"),
        (("--fleet", "local:2", "--tool", "bolide,wrk"), "--tool: wrk cannot generate the load"),
        (("--fleet", "cloud"), "--fleet: 'cloud' is not a fleet; give local:N or tcp://HOST:PORT"),
        (("--fleet", "tcp://10.0.0.1:8786"), "give one like --server-address 10.0.0.5"),
        (("--fleet", "local:2", "--secret-file", "f"), "local:2 starts its agents itself"),
    ],
)
def test_mistakes_are_said_in_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    code, _, errors = race(tmp_path, "tiny.toml", *words)
    assert code == 2
    [line] = errors.splitlines()
    assert line.startswith("bolide: error: ") and message in line
