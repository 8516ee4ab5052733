"""What an agent and its generator do when the other one does not respond as it should."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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


class FakeLoad:
    """A load that ends when it is stopped, with a record of 25 characters."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.records = 0

    def wait(self, timeout_s: float) -> bool:
        return self.is_stopped

    def is_ready(self) -> bool:
        return True

    def begin(self, at_ns: int) -> None: ...

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


def test_a_mistake_of_ours_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Limits) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Limits, "as_message", fail)
    octets = asyncio.run(Agent("a", Limits()).respond(wire.encode(wire.Hello())))
    found = wire.reply(octets)
    assert found == wire.Refusal(reason="it failed: ZeroDivisionError: division by zero")
