"""Runs of a fleet whose agents are in this process: what happens to messages is up to the test."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet import clock, wire
from bolide.fleet.agent import Agent
from bolide.fleet.engine import FleetEngine
from bolide.fleet.limits import Limits
from bolide.fleet.place import Fleet, table
from fleet.conftest import counts
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

Fault = Callable[[str, wire.Question], Exception | None]


class LocalLink:
    """Agents in a thread; `fault` may lose messages."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = dict(agents)
        self.fault: Fault = lambda address, question: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def agents(self) -> list[str]:
        return list(self._agents)

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = 5.0
    ) -> dict[str, bytes | Exception]:
        found: dict[str, bytes | Exception] = {}
        for address, octets in messages.items():
            failure = self.fault(address, wire.question(octets))
            found[address] = failure or self._run(self._agents[address].respond(octets))
        return found

    def close(self) -> None:
        for agent in self._agents.values():
            self._run(agent.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, awaited: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(30)


@pytest.fixture
def counting(start: Start, applications: Any) -> Server:
    """Return a server that counts its responses."""
    return start("counting.py", cwd=applications / "load")


@pytest.fixture
def links() -> Iterator[Callable[..., LocalLink]]:
    """Return a function that makes a link to agents with these clocks, ahead by nanoseconds."""
    made: list[LocalLink] = []

    def link(*clocks: Callable[[], int]) -> LocalLink:
        agents = {f"tcp://{n}": Agent(f"n{n}", Limits(), each) for n, each in enumerate(clocks)}
        made.append(LocalLink(agents))
        return made[-1]

    yield link
    for each in made:
        each.close()


def plan(server: Server, **changes: Any) -> dict[str, Any]:
    """Make the plan of a short run."""
    from fleet.samples import plan as sample

    request = {
        "method": "GET",
        "target": "/page/a",
        "host": "x",
        "field_lines": [],
        "content": None,
        "weight": 1,
        "expected_status": None,
        "expected_length": None,
        "expected_content": b"page a",
        "is_any_length": False,
        "is_template": False,
    }
    address = server.urls[0].removeprefix("http://")
    given = {"address": address, "requests": [request], "connections": 6, "duration_s": 0.5}
    return sample(**(given | changes))


def run(engine: FleetEngine) -> dict[str, Any]:
    """Run to the end; return the report."""
    engine.start()
    wait_until(lambda: engine.wait(0.1), 30)
    found: dict[str, Any] = json.loads(engine.report())
    return found


def test_a_run_and_its_table(links: Callable[..., LocalLink], counting: Server) -> None:
    fleet = Fleet(links(clock.now_ns, lambda: clock.now_ns() - 7_000_000_000))
    engine = fleet.make_engine(plan(counting, duration_s=None, requests_total=1001, threads=2))
    engine.start()
    assert json.loads(engine.progress())["ok"] >= 0
    wait_until(lambda: engine.wait(0.1), 30)
    progress, report = json.loads(engine.progress()), json.loads(engine.report())
    assert (progress["phase"], progress["ok"]) == ("done", 1001)
    assert (report["ok"], report["failed"]) == (1001, 0)
    assert counts(counting) == {"a": 1001}
    assert [each["ok"] for each in report["fleet"]["agents"]] == [501, 500]
    lines = table(report["fleet"])
    assert [line.split()[0] for line in lines] == [
        "agent",
        "n0@" + host(),
        "n1@" + host(),
        "starts",
    ]


def host() -> str:
    import socket

    return socket.gethostname()


def test_a_clock_that_moves_during_the_run_is_detected(
    links: Callable[..., LocalLink], counting: Server
) -> None:
    ahead = [0]
    link = links(clock.now_ns, lambda: clock.now_ns() + ahead[0])

    def move(address: str, question: wire.Question) -> None:
        if isinstance(question, wire.Fetch):
            ahead[0] = 3_000_000_000

    link.fault = move
    report = run(Fleet(link).make_engine(plan(counting)))
    [reason] = [each for each in report["invalid"] if "clock" in each]
    assert reason.startswith("the clock of agent n1 moved by 3.00 s")


def test_a_start_that_arrives_late_is_detected(
    links: Callable[..., LocalLink], counting: Server
) -> None:
    # Its clock jumps between its measurement and the start: so the start is in its past.
    ahead = [0]
    link = links(clock.now_ns, lambda: clock.now_ns() + ahead[0])

    def move(address: str, question: wire.Question) -> None:
        if isinstance(question, wire.Prepare):
            ahead[0] = 3_000_000_000

    link.fault = move
    report = run(Fleet(link).make_engine(plan(counting)))
    assert any(each.startswith("agent n1 started 2.") for each in report["invalid"])


def test_an_agent_that_is_silent_is_lost_and_the_others_stop(
    links: Callable[..., LocalLink], counting: Server
) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting, duration_s=60.0))
    engine.start()
    wait_until(lambda: bool(json.loads(engine.progress())["ok"]), 30)
    link.fault = lambda address, question: Error("silent") if address == "tcp://1" else None
    wait_until(lambda: engine.wait(0.1), 30)
    report = json.loads(engine.report())
    assert report["invalid"][0] == "agent n1 was lost: silent"
    assert report["ok"] == report["fleet"]["agents"][0]["ok"] > 0
    assert report["fleet"]["agents"][1]["ok"] is None
    assert report["seconds"] < 50


def test_without_any_agent_there_is_no_result(
    links: Callable[..., LocalLink], counting: Server
) -> None:
    link = links(clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting, duration_s=60.0))
    engine.start()
    link.fault = lambda address, question: Error("silent")
    with pytest.raises(Error, match="all agents were lost, so there is no result: silent"):
        engine.wait(5)


def test_an_agent_that_refuses_frees_the_others(
    links: Callable[..., LocalLink], counting: Server
) -> None:
    link = links(clock.now_ns, clock.now_ns)
    fleet = Fleet(link)
    link.fault = lambda address, question: (
        Error("full") if address == "tcp://1" and isinstance(question, wire.Prepare) else None
    )
    with pytest.raises(Error, match="agent n1: full"):
        fleet.make_engine(plan(counting)).start()
    link.fault = lambda address, question: None
    busy = fleet.make_engine(plan(counting, duration_s=30.0))
    busy.start()
    with pytest.raises(ConfigError, match="agent n0: it executes another run"):
        fleet.make_engine(plan(counting)).start()


def test_a_coordinator_that_is_gone_ends_the_load(
    links: Callable[..., LocalLink], counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.job.ABANDONED_S", 0.5)
    link = links(clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting, duration_s=60.0))
    engine.start()
    agent = link._agents["tcp://0"]
    job = agent._job
    assert job is not None
    wait_until(lambda: job.is_ended, 20)
    with pytest.raises(Error, match="the coordinator was silent for"):
        engine.wait(5)
    # The agent is free for the next run.
    report = run(Fleet(link).make_engine(plan(counting, duration_s=0.3)))
    assert report["ok"] > 0


def test_connections_that_are_prepared_are_not_kept_for_ever(
    links: Callable[..., LocalLink], counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.job.PREPARED_S_MAX", 0.5)
    link = links(clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting))
    engine._ask_all(engine._prepare, wire.State, 20)
    job = link._agents["tcp://0"]._job
    assert job is not None
    wait_until(lambda: job.is_ended, 20)
    assert "did not start within" in job.reason
    assert counts(counting) == {}
