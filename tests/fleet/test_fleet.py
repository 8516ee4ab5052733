"""Fleets on this machine against servers whose own count is known."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.conftest import LOAD_S, LoadProcess, Processes, counts, result
from support.server import Server, children
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Load = Callable[..., tuple[int, str, str]]

WAYS: list[tuple[str, ...]] = [
    ("local:2", "-c", "7"),
    ("local:4", "-c", "9", "-t", "2", "--pipeline", "3"),
    ("local:2", "-c", "5", "--no-keep-alive"),
    ("local:2", "-c", "8", "--rate", "3k"),
]


@pytest.mark.parametrize("way", WAYS, ids=[" ".join(way) for way in WAYS])
def test_the_servers_count_agrees_to_the_request(
    counting: Server, load: Load, way: tuple[str, ...]
) -> None:
    fleet, *options = way
    url = f"{counting.urls[0]}/page/a"
    found = result(load(url, "-n", "1501", "--fleet", fleet, *options, "--json", "--quiet"))
    assert (found["ok"], found["failed"], found["unfinished"]) == (1501, 0, 0)
    assert sum(count for _, count in found["histogram"]) == 1501
    assert found["content_bytes_received"] == 1501 * len("page a")
    assert counts(counting) == {"a": 1501}
    agents = found["fleet"]["agents"]
    assert [each["name"] for each in agents] == [f"local-{n}" for n in range(int(fleet[-1]))]
    shares = [each["ok"] for each in agents]
    assert sum(shares) == 1501 and max(shares) - min(shares) <= 2
    assert sum(each["connections"] for each in agents) == int(options[1])
    assert found["fleet"]["start_skew_us"] < 10e6


def test_a_newcomer_sees_a_table_and_progress(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/page/a"
    code, page, written = load(url, "--fleet", "local:2", "-c", "4", "-d", "2500ms")
    assert code in (0, 4), written
    assert re.search(r"^agent +requests/s +responses +failed +CPU +start$", page, re.M)
    rows = re.findall(r"^local-\d\S* +[\d,.]+ +([\d,]+) +0 +\d+% +\+", page, re.M)
    total = re.search(r"^responses +([\d,]+) in 2.5 s$", page, re.M)
    assert total is not None and len(rows) == 2
    assert sum(int(row.replace(",", "")) for row in rows) == int(total[1].replace(",", ""))
    assert re.search(r"^starts at most .* apart, as far as the clocks are known", page, re.M)
    assert "requests/s, p50" in written
    assert (code == 4) == ("note: the result is not valid: agent local-" in page)


def test_a_search_ends_below_the_servers_limit(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/slow"
    options = ("--fleet", "local:2", "-c", "10", "-d", "300ms", "--rate", "200")
    code, page, _ = load(url, *options, "--find", "p99 < 150ms", "--json", "--quiet")
    found = json.loads(page)["find"]
    assert code in (0, 1, 4) and found["trials"]
    assert found["rate_per_s"] is None or found["rate_per_s"] <= 300
    # A busy machine leaves agents no time, which says nothing about the server.
    assert found["limit"] in ("server", "connections", "generator", "invalid")
    assert found["failed_rate_per_s"] is not None or code == 4


def test_an_interrupt_ends_the_load_and_what_was_measured_is_reported(
    counting: Server, processes: Processes
) -> None:
    run = processes.load(
        f"{counting.urls[0]}/page/a", "--fleet", "local:2", "-c", "4", "-d", "60s", "--json"
    )
    run.wait_line("requests/s, p50", LOAD_S)
    run.process.send_signal(signal.SIGINT)
    code, page, _ = run.ended()
    assert code == 130
    found = json.loads(page)
    assert found["ok"] > 0 and found["was_stopped"]
    assert counts(counting)["a"] <= found["requests_sent"]


def test_stages_and_conditions(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/page/a"
    done = load(
        *(url, "--fleet", "local:2", "-c", "6", "--stages", "500ms:100,500ms:301"),
        *("--require", "ok > 1000000", "--json", "--quiet"),
    )
    assert done[0] == 1 and "not met: 'ok > 1000000'" in done[2], done
    found = json.loads(done[1])
    assert found["ok"] + found["failed"] + found["unfinished"] == 151  # 50 and the mean of 200


def test_an_agent_that_is_killed_makes_the_result_invalid(
    counting: Server, processes: Processes
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    killed = processes.agent(scheduler, "b")
    run = processes.load(
        f"{counting.urls[0]}/page/a", "--fleet", scheduler, "-c", "4", "-d", "120s", "--json"
    )
    run.wait_line("requests/s, p50", LOAD_S)
    [generator] = children(killed.pid)
    killed.process.kill()
    code, page, _ = run.ended()
    found = json.loads(page)
    assert (code, found["invalid_kinds"][0]) == (4, "lost")
    # The scheduler of a busy machine may notice it later than its silence is.
    reasons = r"it cannot be reached|it did not respond for 5 s|it was silent for \d+ s \(.*\)"
    assert re.fullmatch(f"agent b was lost: ({reasons})", found["invalid"][0])
    first, second = found["fleet"]["agents"]
    assert (first["lost"], second["ok"]) == (None, None)
    assert found["ok"] == first["ok"] > 0
    assert found["seconds"] < 100
    wait_until(lambda: not is_there(generator))


ALL_LOST = "all agents were lost, so there is no result"


def loading(counting: Server, processes: Processes) -> tuple[Server, str, Server, LoadProcess]:
    """Start a scheduler, an agent and a load; return them, and the scheduler's address."""
    scheduling, scheduler = processes.scheduler()
    agent = processes.agent(scheduler, "a")
    run = processes.load(
        f"{counting.urls[0]}/page/a", "--fleet", scheduler, "-c", "4", "-d", "120s"
    )
    run.wait_line("requests/s, p50", LOAD_S)
    return scheduling, scheduler, agent, run


def test_a_scheduler_that_is_killed_with_all_agents_is_one_line(
    counting: Server, processes: Processes
) -> None:
    scheduling, scheduler, agent, run = loading(counting, processes)
    for each in (scheduling, agent):
        each.process.kill()
    code, page, written = run.ended()
    assert (code, page) == (3, ""), written
    errors = [line for line in written.splitlines() if "requests/s, p50" not in line]
    gone = f"the scheduler at {scheduler} is gone: its connection has ended"
    assert errors == [f"bolide: error: {gone}"]


def test_without_the_scheduler_there_is_no_result_and_the_load_ends(
    counting: Server, processes: Processes
) -> None:
    scheduling, scheduler, agent, run = loading(counting, processes)
    [generator] = children(agent.pid)
    scheduling.process.kill()
    code, page, written = run.ended()
    assert (code, page) == (3, ""), written
    assert written.splitlines()[-1] in (
        f"bolide: error: the scheduler at {scheduler} is gone: its connection has ended",
        f"bolide: error: {ALL_LOST}: agent a: the agent has ended",
    )
    agent.wait_line(f"error: the scheduler at {scheduler} has ended", 40)
    assert agent.process.wait(20) == 3
    wait_until(lambda: not is_there(generator))


def is_there(pid: int) -> bool:
    """Return whether a process exists, and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


HOG = """
import sys, time
print("waits", file=sys.stderr, flush=True)
open("go").read()  # a pipe: until somebody opens it
end = time.monotonic() + 60
while time.monotonic() < end: pass
"""


def test_an_agent_without_a_processor_makes_the_result_invalid(processes: Processes) -> None:
    class Hog(Server):
        program = ("-c", HOG)

    class Ceiling(Server):
        program = ("-m", "bolide", "ceiling")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes.run(Ceiling, ["--port", str(port), "-d", "90"]).wait_line("responding", LOAD_S)
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    processes.agent(scheduler, "slow", within=("taskset", "-c", "0"))
    os.mkfifo(processes.folder / "go")
    for _ in range(3):
        # each in a session of its own, which the kernel gives as much as the generator
        hog = processes.run(Hog, [], within=("setsid", "taskset", "-c", "0"))
        hog.wait_line("waits", LOAD_S)
    url = f"http://127.0.0.1:{port}/"
    times = ("--warm-up", "6s", "-d", "5s")
    run = processes.load(
        url, "--fleet", scheduler, "-c", "20", "--pipeline", "50", *times, "--json"
    )
    run.wait_line("requests/s, p50", LOAD_S)
    (processes.folder / "go").write_text("")
    code, page, _ = run.ended()
    assert code == 4
    reasons = json.loads(page)["invalid"]
    assert any(each.startswith("agent slow was CPU-bound: ") for each in reasons), reasons


AHEAD = """
import bolide.fleet.agent as module
from bolide.fleet import clock
class Ahead(module.Agent):
    def __init__(self, name, limits, secret):
        super().__init__(name, limits, lambda: clock.now_ns() + 3_000_000_000, secret)
module.Agent = Ahead
"""


def test_a_clock_that_is_three_seconds_ahead_changes_nothing(
    counting: Server, processes: Processes, load: Load
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    processes.agent(scheduler, "b", code=AHEAD)
    url = f"{counting.urls[0]}/page/a"
    options = ("-c", "4", "--rate", "200", "-d", "1s", "--json", "--quiet")
    found = result(load(url, "--fleet", scheduler, *options))
    assert found["ok"] + found["unfinished"] == 200
    assert not [each for each in found["invalid"] if "clock" in each]
    assert found["fleet"]["start_skew_us"] < 1e6  # and not 3e6
    assert found["per_second"][0]["ok"] > 100  # of both agents


OTHER = """
import types
import bolide.fleet.wire as module
module._core = types.SimpleNamespace(__version__="9.9.9")
"""


def test_an_agent_of_another_version_is_refused_in_one_line(
    counting: Server, processes: Processes, load: Load
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    processes.agent(scheduler, "b", code=OTHER)
    code, page, written = load(f"{counting.urls[0]}/page/a", "--fleet", scheduler)
    assert (code, page) == (2, "")
    expected = r"bolide: error: agent b has Bolide 9\.9\.9 instead of [\d.]+; install .*\n"
    assert re.fullmatch(expected, written)
    assert counts(counting) == {}


def test_agents_keep_their_limits(counting: Server, processes: Processes, load: Load) -> None:
    _, scheduler = processes.scheduler()
    limits = ("--connections-max", "5", "--duration-max", "1s")
    processes.agent(scheduler, "a", *limits)

    def refusal(*arguments: str) -> str:
        code, page, written = load(*arguments, "--fleet", scheduler)
        assert (code, page) == (2, "")
        found = re.fullmatch(r"bolide: error: (.*)\n", written)
        assert found is not None, written
        return found[1]

    loopback = "127.0.0.0/8, ::1/128"
    url = f"{counting.urls[0]}/page/a"
    assert refusal("http://10.1.2.3:9/", "-c", "1", "-d", "1s") == (
        f"agent a: 10.1.2.3 is not in what it may load (--allow): {loopback}"
    )
    assert "6 connections are more than its --connections-max 5" in refusal(
        url, "-c", "6", "-d", "1"
    )
    assert "2.0 s are longer than its --duration-max 1.0 s" in refusal(url, "-c", "1", "-d", "2s")
    assert counts(counting) == {}
    # A number of requests has no planned end, so the agent ends it.
    done = load(url, "-n", "100M", "-c", "2", "--fleet", scheduler, "--json", "--quiet")
    found = result(done)
    assert "agent a ended the load at its --duration-max" in found["invalid"]
    assert counts(counting)["a"] == found["requests_sent"]


def test_an_agent_with_a_list_does_not_load_loopback(
    counting: Server, processes: Processes, load: Load
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a", "--allow", "10.0.0.0/8")
    code, _, written = load(f"{counting.urls[0]}/page/a", "--fleet", scheduler, "-c", "1")
    assert code == 2 and "127.0.0.1 is not in what it may load (--allow): 10.0.0.0/8" in written
    assert counts(counting) == {}


def test_a_fleet_with_a_secret(
    counting: Server, processes: Processes, load: Load, tmp_path: Path
) -> None:
    secret, other = tmp_path / "secret", tmp_path / "other"
    secret.write_text("the secret of this test\n")
    other.write_text("another secret of this test\n")
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a", "--secret-file", str(secret))
    url = f"{counting.urls[0]}/page/a"
    options = ("-n", "51", "-c", "2", "--fleet", scheduler, "--json", "--quiet")
    found = result(load(url, *options, "--secret-file", str(secret), "--agents", "1"))
    assert found["ok"] == 51
    for given, message in [
        ((), "agent a: it has a secret; give the same --secret-file to `bolide load`"),
        (("--secret-file", str(other)), "agent a: it has another secret; give the same"),
        (("--secret-file", str(secret), "--without-agent", "a"), "there are no agents; start some"),
    ]:
        code, page, written = load(url, *options, *given)
        assert (code, page) == (2, "") and message in written
    assert counts(counting) == {"a": 51}
