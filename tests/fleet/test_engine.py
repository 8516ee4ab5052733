"""Runs of a fleet whose agents are in this process: what happens to messages is up to the test."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable

import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet import clock, wire
from bolide.fleet.place import Fleet, table
from fleet.conftest import counts
from fleet.in_process import LocalLink, await_end, plan, run
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_run_and_its_table(links: Callable[..., LocalLink], counting: Server) -> None:
    fleet = Fleet(links(clock.now_ns, lambda: clock.now_ns() - 7_000_000_000))
    engine = fleet.make_engine(plan(counting, duration_s=None, requests_total=1001, threads=2))
    engine.start()
    assert json.loads(engine.progress())["ok"] >= 0
    await_end(engine)
    progress, report = json.loads(engine.progress()), json.loads(engine.report())
    assert (progress["phase"], progress["ok"]) == ("done", 1001)
    assert (report["ok"], report["failed"]) == (1001, 0)
    assert counts(counting) == {"a": 1001}
    assert [each["ok"] for each in report["fleet"]["agents"]] == [501, 500]
    lines = table(report["fleet"])
    host = socket.gethostname()
    assert [line.split()[0] for line in lines] == ["agent", f"n0@{host}", f"n1@{host}", "starts"]


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
            ahead[0] = 600_000_000

    link.fault = move
    report = run(Fleet(link).make_engine(plan(counting)))
    # the start was 0.25 s away
    late = r"agent n1 started [3-9]\d\d ms late"
    assert any(re.fullmatch(late, each) for each in report["invalid"])


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
    with pytest.raises(Error, match="agent n0: it executes another run") as raised:
        fleet.make_engine(plan(counting)).start()
    assert not isinstance(raised.value, ConfigError)  # it may be free later


def test_connections_that_are_prepared_are_not_kept_for_ever(
    links: Callable[..., LocalLink], counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.job.PREPARED_S_MAX", 0.5)
    link = links(clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting))
    engine._ask_all(engine._prepare, wire.State, 20)
    job = link.agent("tcp://0")._job
    assert job is not None
    wait_until(lambda: job.is_ended, 20)
    assert "did not start within" in str(job.failure)
    assert counts(counting) == {}
