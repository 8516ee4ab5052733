"""Messages and agents that are lost during a run: what is left of the result."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bolide.config.address import Address
from bolide.errors import Error
from bolide.fleet import clock, wire
from bolide.fleet.engine import FleetEngine
from bolide.fleet.job import Job
from bolide.fleet.limits import Limits
from bolide.fleet.link import Link
from bolide.fleet.place import Fleet
from bolide.fleet.result import _may_have, fetched
from bolide.fleet.verdict import Member
from bolide.load.display import Quiet
from bolide.load.run import run as run_load
from fleet.conftest import counts
from fleet.in_process import LocalLink, await_end, has_begun, plan, run
from fleet.samples import description
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

RECORD = "a record"
Links = Callable[..., LocalLink]


def started(link: LocalLink, counting: Server, **changes: Any) -> FleetEngine:
    """Start a run that has responses."""
    engine = Fleet(link).make_engine(plan(counting, **({"duration_s": 60.0} | changes)))
    engine.start()
    wait_until(lambda: has_begun(engine), 30)
    return engine


def silent(*numbers: int) -> Callable[[str, wire.Question], Exception | None]:
    """Lose all messages to some agents."""
    addresses = {f"tcp://{each}" for each in numbers}
    return lambda address, question: Error("no reply") if address in addresses else None


def test_an_agent_that_stays_silent_is_lost_and_the_others_stop(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.engine.SILENT_S_MAX", 0.5)
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    link.fault = silent(1)
    await_end(engine)
    report = json.loads(engine.report())
    expected = r"agent n1 was lost: it was silent for \d s \(no reply\)"
    assert re.fullmatch(expected, report["invalid"][0])
    assert report["invalid_kinds"][0] == "lost"
    first, second = report["fleet"]["agents"]
    assert report["ok"] == first["ok"] > 0 and second["ok"] is None
    assert report["seconds"] < 50


def test_an_agent_that_has_left_is_lost_at_once(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.engine.SILENT_S_MAX", 1e9)
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    link.fault, link.gone = silent(1), {"tcp://1"}
    await_end(engine)
    report = json.loads(engine.report())
    assert report["invalid"][0] == "agent n1 was lost: no reply"


def test_a_loss_that_the_display_notices_stops_the_others(links: Links, counting: Server) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    link.fault, link.gone = silent(1), {"tcp://1"}
    engine.progress()
    assert [bool(each.lost) for each in engine.members] == [False, True]
    await_end(engine)
    assert json.loads(engine.report())["seconds"] < 50


def test_the_display_does_not_repeat_what_a_silent_agent_counted_last(
    links: Links, counting: Server
) -> None:
    link = links(clock.now_ns)
    engine = started(link, counting)
    shown: list[dict[str, Any]] = []

    def has_counted() -> bool:
        shown.append(json.loads(engine.progress()))
        return bool(shown[-1]["interval_requests_per_s"])

    wait_until(has_counted, 30)
    link.fault = silent(0)
    for _ in range(2):
        found = json.loads(engine.progress())
        assert found["ok"] == shown[-1]["ok"] > 0
        assert found["interval_requests_per_s"] == found["interval_latency_us"]["p99"] == 0
    link.fault = silent()
    wait_until(has_counted, 30)


def test_a_stop_that_is_lost_is_sent_again(links: Links, counting: Server) -> None:
    link = links(clock.now_ns)
    engine = started(link, counting)
    stops: list[wire.Question] = []

    def lose_the_first(address: str, question: wire.Question) -> Exception | None:
        if not isinstance(question, wire.Stop):
            return None
        stops.append(question)
        return Error("no reply") if len(stops) == 1 else None

    link.fault = lose_the_first
    engine.stop()
    await_end(engine)
    assert len(stops) > 1
    report = json.loads(engine.report())
    assert report["was_stopped"] and "lost" not in report["invalid_kinds"]


def test_a_silence_that_ends_loses_nothing(links: Links, counting: Server) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting, duration_s=None, requests_total=20_000)
    left = iter(range(6))
    link.fault = lambda address, question: (
        Error("no reply") if next(left, None) is not None else None
    )
    await_end(engine)
    assert next(left, None) is None
    report = json.loads(engine.report())
    assert report["ok"] == 20_000 and "lost" not in report["invalid_kinds"]
    assert counts(counting) == {"a": 20_000}


def test_what_was_counted_is_fetched_after_a_silence_of_all(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.engine.SILENT_S_MAX", 0.3)
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    link.fault = silent(0, 1)
    await_end(engine)
    assert all(each.lost for each in engine.members)
    link.fault = silent()
    report = json.loads(engine.report())
    assert all(each["ok"] > 0 for each in report["fleet"]["agents"])
    assert counts(counting)["a"] <= report["requests_sent"]
    assert report["invalid_kinds"][0] == "lost"


def test_without_any_agent_there_is_no_result(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.engine.SILENT_S_MAX", 0.3)
    monkeypatch.setattr("bolide.fleet.result.SILENT_S_MAX", 0.6)
    link = links(clock.now_ns)
    engine = started(link, counting)
    link.fault = silent(0)
    await_end(engine)
    with pytest.raises(Error, match="so there is no result: agent n0: it was silent for"):
        engine.report()


def test_a_result_is_asked_for_until_it_arrives(links: Links, counting: Server) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting, duration_s=None, requests_total=501))
    engine.start()
    await_end(engine)
    lost: list[wire.Question] = []

    def lose(address: str, question: wire.Question) -> Exception | None:
        if isinstance(question, wire.Fetch) and len(lost) < 5:
            lost.append(question)
            return Error("no reply")
        return None

    link.fault = lose
    report = json.loads(engine.report())
    assert len(lost) == 5 and report["ok"] == 501
    address = counting.urls[0].removeprefix("http://")
    assert [each["target"] for each in report["fleet"]["agents"]] == [address] * 2
    assert "lost" not in report["invalid_kinds"]


class Records:
    """A link to agents that have a result, except those that are silent."""

    def __init__(self, silent: set[str], gone: set[str] | None = None) -> None:
        self._silent = silent
        self._gone = gone or set()
        self.calls = 0

    def agents(self) -> dict[str, str]:
        return {each: each for each in ("tcp://a", "tcp://b") if each not in self._gone}

    def call(self, messages: Mapping[str, bytes], timeout_s: float = 5.0) -> dict[str, Any]:
        self.calls += bool(messages)
        if self.calls > 1 and not self._gone:
            raise KeyboardInterrupt
        octets = wire.encode(
            wire.Part(has_ended=True, piece=RECORD, total=len(RECORD), ended="", target="")
        )
        failed = Error("it cannot be reached")
        return {each: failed if each in self._silent else octets for each in messages}

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("gone", "reason"),
    [({"tcp://b"}, "it cannot be reached"), (set(), "its result was not waited for")],
)
def test_a_result_is_not_awaited_after_its_agent_has_left_or_an_interrupt(
    gone: set[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.result._report", lambda record: {"ok": 7})
    link = Records({"tcp://b"}, gone)
    members = [Member(f"tcp://{each}", description(each), clock.Offset(0, 0)) for each in "ab"]
    for each in members:
        each.heard_s = time.monotonic()
    assert fetched(link, "r", members) == [RECORD]
    assert [each.lost for each in members] == ["", reason]
    assert link.calls == (1 if gone else 2)


def test_an_interrupt_ends_the_wait_for_all_results() -> None:
    link = Records({"tcp://b"})
    members = [Member(f"tcp://{each}", description(each), clock.Offset(0, 0)) for each in "ab"]
    members[1].lost = "it was silent for 10 s"
    assert fetched(link, "r", members) == []  # it was asked to stop, then the other one is fetched
    assert [each.lost for each in members] == [
        "its result was not waited for",
        "it was silent for 10 s",
    ]
    assert link.calls == 2


def test_an_interrupt_while_clocks_are_read_again_keeps_the_report(
    links: Links, counting: Server
) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    engine.stop()
    wait_until(lambda: engine.wait(0.0), 20)

    def interrupt(address: str, question: wire.Question) -> None:
        if isinstance(question, wire.Clock):
            raise KeyboardInterrupt

    link.fault = interrupt
    report = json.loads(engine.report())
    assert report["ok"] > 0
    unread = "the clock of agent n{} was not read after the run: it was not waited for"
    assert [unread.format(each) for each in (0, 1)] == report["invalid"]


def test_a_run_without_a_report_frees_its_agents(links: Links, counting: Server) -> None:
    link = links(clock.now_ns, clock.now_ns)
    fleet = Fleet(link)
    fleet.make_engine(plan(counting, duration_s=60.0)).start()
    fleet.close()
    assert run(fleet.make_engine(plan(counting, duration_s=0.3)))["ok"] > 0


def test_a_message_that_frees_an_agent_and_is_lost_is_sent_again(
    links: Links, counting: Server
) -> None:
    link = links(clock.now_ns, clock.now_ns)
    fleet = Fleet(link)
    freed: list[str] = []

    def lose_the_first(address: str, question: wire.Question) -> Exception | None:
        if not isinstance(question, wire.Forget):
            return None
        freed.append(address)
        return Error("no reply") if len(freed) == 1 else None

    link.fault = lose_the_first
    short = plan(counting, duration_s=None, requests_total=10)
    assert [run(fleet.make_engine(short))["ok"] for _ in range(2)] == [10, 10]
    assert freed == ["tcp://0", "tcp://1", "tcp://0", "tcp://0", "tcp://1"]


def failing_once(*kinds: type[wire.Question]) -> Callable[[str, wire.Question], None]:
    """Return a fault with which a link raises at the first message of each kind."""
    left = set(kinds)

    def fail(address: str, question: wire.Question) -> None:
        if type(question) in left:
            left.remove(type(question))
            raise Error("the scheduler is gone")

    return fail


def test_a_link_that_fails_during_a_load_ends_it_and_frees_the_agents(
    links: Links, counting: Server
) -> None:
    link = links(clock.now_ns)
    fleet = Fleet(link)

    class Failing(Quiet):
        interval_s = 0.1

        def show(self, progress: dict[str, Any]) -> None:
            link.fault = failing_once(wire.Look)

    with pytest.raises(Error, match=r"^the scheduler is gone$"):
        run_load(plan(counting, duration_s=60.0), Failing(), fleet.make_engine)
    fleet.close()
    assert run(fleet.make_engine(plan(counting, duration_s=0.3)))["ok"] > 0


def test_a_link_that_fails_after_a_load_loses_nothing(links: Links, counting: Server) -> None:
    link = links(clock.now_ns, clock.now_ns)
    fleet = Fleet(link)
    link.fault = failing_once(wire.Fetch, wire.Forget)
    short = plan(counting, duration_s=None, requests_total=10)
    assert [run(fleet.make_engine(short))["ok"] for _ in range(2)] == [10, 10]


def test_an_error_while_results_are_fetched_frees_the_agents(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = links(clock.now_ns)
    engine = started(link, counting)

    def fail(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bolide.fleet.result.fetched", fail)
        with pytest.raises(KeyboardInterrupt):
            engine.report()
    assert run(Fleet(link).make_engine(plan(counting, duration_s=0.3)))["ok"] > 0


def test_an_agent_whose_progress_is_malformed_is_lost(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = links(clock.now_ns, clock.now_ns)
    engine = started(link, counting)
    respond = link.agent("tcp://1").respond

    async def lie(octets: bytes) -> bytes:
        question = wire.question(octets)
        if isinstance(question, wire.Look) and question.counts:
            return wire.encode(wire.State(phase="running", snapshot="none"))
        return await respond(octets)

    monkeypatch.setattr(link.agent("tcp://1"), "respond", lie)
    assert json.loads(engine.progress())["ok"] > 0
    await_end(engine)
    report = json.loads(engine.report())
    assert report["invalid"][0].startswith("agent n1 was lost: its progress is malformed: ")
    assert report["fleet"]["agents"][0]["ok"] > 0


class Pieces:
    """A link to one agent, which has a result as pieces, or something else."""

    def __init__(self, respond: Callable[[int], wire.Reply]) -> None:
        self._respond = respond

    def agents(self) -> dict[str, str]:
        return {}

    def call(self, messages: Mapping[str, bytes], timeout_s: float = 5.0) -> dict[str, Any]:
        found = {}
        for address, octets in messages.items():
            question = wire.question(octets)
            assert isinstance(question, wire.Fetch)
            found[address] = wire.encode(self._respond(question.offset))
        return found

    def close(self) -> None: ...


def fetched_from(link: Link) -> tuple[list[str], Member]:
    member = Member("tcp://a", description("a"), clock.Offset(0, 0))
    return fetched(link, "r", [member]), member


def test_a_result_arrives_in_pieces(links: Links, counting: Server) -> None:
    link = links(clock.now_ns)
    engine = Fleet(link).make_engine(plan(counting, duration_s=None, requests_total=50))
    engine.start()
    await_end(engine)
    octets = link.sent("tcp://0", wire.encode(wire.Fetch(run=engine._run, offset=0)))
    whole = wire.reply(octets)
    assert isinstance(whole, wire.Part) and len(whole.piece) == whole.total > 300

    def piece(offset: int) -> wire.Part:
        text = whole.piece[offset : offset + 100]
        return wire.Part(has_ended=True, piece=text, total=whole.total, ended="", target="")

    records, member = fetched_from(Pieces(piece))
    assert records == [whole.piece]
    assert member.report is not None and member.report["ok"] == 50

    for changes in ({"ok": 10**9}, {"ok": 49}, {"ok": 60, "drained": 10, "is_open_loop": True}):
        false = json.dumps(json.loads(whole.piece) | changes)
        part = wire.Part(has_ended=True, piece=false, total=len(false), ended="", target="")
        records, member = fetched_from(Pieces(lambda offset, part=part: part))
        assert records == [] and member.report is None
        number = f"{changes['ok']:,}"
        expected = f"its result contradicts itself: {number} correct responses with 50 latencies"
        assert member.lost == expected


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"ok": 8, "errors": {"unexpected_bytes": 2}}, True),
        ({"ok": 7, "errors": {"unexpected_bytes": 2}}, False),
        ({"ok": 12, "drained": 2, "was_stopped": True}, True),
        ({"ok": 12, "drained": 2}, False),
        ({"ok": 12, "drained": 1, "was_stopped": True}, False),
    ],
)
def test_a_correct_response_has_a_latency(changes: dict[str, Any], may: bool) -> None:
    report = {"ok": 10, "errors": {"unexpected_bytes": 0}, "drained": None, "was_stopped": False}
    assert _may_have(report | changes, 10) is may


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            wire.Part(has_ended=True, piece="{}", total=2, ended="", target=""),
            "its result is malformed: ",
        ),
        (
            wire.Part(has_ended=True, piece="", total=9, ended="", target=""),
            "its result is malformed: ",
        ),
        (wire.Done(), "it sent Done instead of Part"),
        (wire.Refusal(reason="no \x1b[31msuch run"), "no \N{REPLACEMENT CHARACTER}[31msuch run"),
    ],
)
def test_a_result_that_is_none_is_a_reason(reply: wire.Reply, reason: str) -> None:
    records, member = fetched_from(Pieces(lambda offset: reply))
    assert records == [] and member.report is None
    assert member.lost.startswith(reason)


def abandoned(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> tuple[LocalLink, FleetEngine, Job]:
    """Start a run whose coordinator is silent for too long."""
    monkeypatch.setattr("bolide.fleet.job.ABANDONED_S", 1.0)
    link = links(clock.now_ns)
    engine = started(link, counting)
    job = link.agent("tcp://0")._job
    assert job is not None
    wait_until(lambda: job.is_abandoned, 20)
    return link, engine, job


def test_a_coordinator_that_is_gone_ends_the_load(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, engine, job = abandoned(links, counting, monkeypatch)
    wait_until(lambda: job._is_done, 20)
    # What was counted is there for a coordinator that returns, and the agent is free for others.
    await_end(engine)
    report = json.loads(engine.report())
    assert "ended" in report["invalid_kinds"] and report["ok"] > 0
    why = "agent n0 ended the load because the coordinator was silent for 1 s"
    assert why in report["invalid"]
    assert run(Fleet(link).make_engine(plan(counting, duration_s=0.3)))["ok"] > 0


def test_a_run_that_was_abandoned_makes_room_for_another_one(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, engine, _ = abandoned(links, counting, monkeypatch)
    assert run(Fleet(link).make_engine(plan(counting, duration_s=0.3)))["ok"] > 0
    await_end(engine)
    with pytest.raises(Error, match="agent n0: it does not have this run any more"):
        engine.report()


class SlowLimits(Limits):
    """Resolves names only when it may."""

    may = threading.Event()

    def address_of(self, host: str, port: int) -> Address:
        assert self.may.wait(30)
        return super().address_of(host, port)


def test_an_agent_that_is_ready_waits_for_a_slow_one(
    links: Links, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.fleet.job.ABANDONED_S", 1.0)
    monkeypatch.setattr(SlowLimits, "may", threading.Event())
    link = links(clock.now_ns, clock.now_ns, limits={1: SlowLimits()})
    looks: list[float] = []

    def note(address: str, question: wire.Question) -> None:
        if address == "tcp://0" and isinstance(question, wire.Look):
            looks.append(clock.now_ns() / 1e9)
            if looks[-1] - looks[0] > 2.5:  # the other one has been ready for longer than 1 s
                SlowLimits.may.set()

    link.fault = note
    report = run(Fleet(link).make_engine(plan(counting, duration_s=None, requests_total=100)))
    assert report["ok"] == 100 and "lost" not in report["invalid_kinds"]


def test_an_agent_that_cannot_prepare_is_the_one_that_is_named(
    links: Links, counting: Server
) -> None:
    limits = {1: Limits(allowed=())}
    engine = Fleet(links(clock.now_ns, clock.now_ns, limits=limits)).make_engine(plan(counting))
    with pytest.raises(Error, match="agent n1: .* is not in what it may load"):
        engine.start()
