"""What an agent and its generator do when the other one does not respond as it should."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from bolide.config.address import Address
from bolide.errors import Error
from bolide.fleet import clock, generator, wire
from bolide.fleet.agent import Agent
from bolide.fleet.generator import Generator
from bolide.fleet.job import Job
from bolide.fleet.limits import Limits
from fleet.samples import order
from support.waiting import wait_until


class Pipes:
    """A generator's process, whose output the test writes."""

    returncode = None

    def __init__(self, limit: int = 1 << 16) -> None:
        self.stdin = self
        self.stdout = asyncio.StreamReader(limit)
        self.written: list[bytes] = []

    def write(self, octets: bytes) -> None:
        self.written.append(octets)

    async def drain(self) -> None: ...


def job_of(pipes: Any) -> Job:
    job = Job("r", order(), Limits())
    job._process = pipes
    return job


def test_a_reply_that_came_too_late_is_not_that_of_the_next_question() -> None:
    async def ask() -> None:
        pipes = Pipes()
        job = job_of(pipes)
        with pytest.raises(Error, match="its generator did not respond for 0 s"):
            await job.ask(0.01, do="look")
        pipes.stdout.feed_data(b'{"number": 1, "phase": "late"}\n{"number": 2, "phase": "new"}\n')
        assert (await job.ask(do="look"))["phase"] == "new"

    asyncio.run(ask())


@pytest.mark.parametrize("line", [b"x" * 100, b"no json\n"])
def test_a_reply_that_cannot_be_read_is_an_error(line: bytes) -> None:
    async def ask() -> None:
        pipes = Pipes(limit=10)
        pipes.stdout.feed_data(line)
        with pytest.raises(Error, match="its generator's reply cannot be read: "):
            await job_of(pipes).ask(do="look")

    asyncio.run(ask())


def test_a_generator_that_was_killed_is_a_reason() -> None:
    class Closed(Pipes):
        async def drain(self) -> None:
            raise ConnectionResetError("Connection lost")

    async def ask() -> None:
        expected = "its generator has ended: it was killed, or has closed its connection"
        with pytest.raises(Error, match=expected):
            await job_of(Closed()).ask(do="look")

    asyncio.run(ask())


class FakeLoad:
    """A load that ends when it is stopped, with a record of 25 characters."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.records = 0
        self.begins_ns: list[int] = []

    def wait(self, timeout_s: float) -> bool:
        return self.is_stopped

    def is_ready(self) -> bool:
        return True

    def begin(self, at_ns: int) -> None:
        self.begins_ns.append(at_ns)

    def stop(self) -> None:
        self.is_stopped = True

    def record(self) -> str:
        self.records += 1
        return "abcdefghijklmnopqrstuvwxy"


def generator_of(load: Any, run_s_max: float = 60.0, silent_s_max: float = 60.0) -> Generator:
    return Generator(load, run_s_max, silent_s_max)


def test_a_record_is_made_once_and_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "PIECE_CHARS", 10)
    load = FakeLoad()
    made = generator_of(load)
    assert made.respond({"do": "record", "offset": 0}) == {"phase": "ready"}
    assert made.respond({"do": "stop"}) == {"phase": "ready"}
    pieces = [made.respond({"do": "record", "offset": each}) for each in (0, 10, 20)]
    assert pieces == [
        {"piece": "abcdefghij", "total": 25},
        {"piece": "klmnopqrst", "total": 25},
        {"piece": "uvwxy", "total": 25},
    ]
    assert load.records == 1
    made.end()


def test_a_load_ends_if_the_agent_is_silent() -> None:
    load = FakeLoad()
    made = generator_of(load, silent_s_max=0.1)
    wait_until(lambda: load.is_stopped)
    made.end()


def test_a_load_ends_at_its_limit_if_the_agent_does_not_end_it() -> None:
    load = FakeLoad()
    made = generator_of(load, run_s_max=0.1)
    made.respond({"do": "begin", "at_ns": clock.now_ns()})
    wait_until(lambda: load.is_stopped)
    made.end()


def test_a_load_begins_once() -> None:
    load = FakeLoad()
    made = generator_of(load)
    begins_ns = clock.now_ns()
    for at_ns in (begins_ns, begins_ns + 50_000_000_000):
        assert made.respond({"do": "begin", "at_ns": at_ns}) == {"phase": "running"}
    assert load.begins_ns == [begins_ns]
    assert made._end_s == begins_ns / 1e9 + 60.0
    made.end()


def test_a_name_that_takes_long_to_resolve_does_not_delay_the_end() -> None:
    asked, may, resolved = threading.Event(), threading.Event(), threading.Event()

    class Slow(Limits):
        def address_of(self, host: str, port: int) -> Address:
            asked.set()
            may.wait(30)
            resolved.set()
            return Address(host, port)

    async def start_and_end() -> None:
        job = Job("r", order(), Slow())
        job.start()
        while not asked.is_set():
            await asyncio.sleep(0)
        await job.end()

    asyncio.run(start_and_end())
    assert not resolved.is_set()
    may.set()
    assert resolved.wait(30)


def agent_that_is_ready(ours_ns: int = 0) -> tuple[Agent, Pipes]:
    """Return an agent whose run waits for its start, and whose clock is ahead by this time."""
    agent, pipes = Agent("a", Limits(), lambda: clock.now_ns() + ours_ns), Pipes()
    agent._job = job_of(pipes)
    pipes.stdout.feed_data(b'{"number": 1, "phase": "running"}\n')
    return agent, pipes


async def asked_to_begin(agent: Agent, at_ns: int) -> wire.Reply:
    return wire.reply(await agent.respond(wire.encode(wire.Begin(run="r", at_ns=at_ns))))


def test_a_second_start_is_refused() -> None:
    async def ask() -> None:
        agent, pipes = agent_that_is_ready()
        first_ns = clock.now_ns()
        assert await asked_to_begin(agent, first_ns) == wire.State(phase="running")
        found = await asked_to_begin(agent, clock.now_ns() + 1_000_000_000)
        assert found == wire.Refusal(reason="the load has its start already")
        assert agent._job is not None and agent._job._begins_s is not None
        assert abs(agent._job._begins_s - first_ns / 1e9) < 0.5
        assert len(pipes.written) == 1

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("ahead_s", "reason"),
    [
        (-1.5, "the start was more than 1 s ago"),
        (-600.0, "the start was more than 1 s ago"),
        (61.0, "the start is more than 60 s away"),
    ],
)
def test_a_start_that_is_long_ago_or_far_away_is_refused(ahead_s: float, reason: str) -> None:
    async def ask() -> None:
        agent, pipes = agent_that_is_ready(7_000_000_000_000)
        at_ns = clock.now_ns() + 7_000_000_000_000 + int(ahead_s * 1e9)
        assert await asked_to_begin(agent, at_ns) == wire.Refusal(reason=reason)
        assert pipes.written == []

    asyncio.run(ask())


def test_a_mistake_of_ours_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Limits) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Limits, "as_message", fail)
    octets = asyncio.run(Agent("a", Limits()).respond(wire.encode(wire.Hello())))
    found = wire.reply(octets)
    assert found == wire.Refusal(reason="it failed: ZeroDivisionError: division by zero")
