"""A reload keeps the workers that it may still need: at any time, in any order of what happens.

The workers here are no processes: they start, serve and end when the test says so.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bolide import _core
from bolide.config.settings import resolve
from bolide.server import workers as module
from bolide.server.process.jobs import Jobs, with_siblings
from bolide.server.process.slot import KILL_AFTER_S, STARTUP_S, State, Worker
from bolide.server.worker import Job
from bolide.server.workers import Workers


class Process:
    """A process of a worker, as far as its supervisor knows it."""

    pids = iter(range(10_000_000, 1 << 62))

    def __init__(self) -> None:
        self.pid = next(self.pids)
        self.report_fd = os.open(os.devnull, os.O_RDONLY)
        self.born = CLOCK.now
        self.report: dict[str, object] = {}
        self.is_ready = self.is_silent = False
        self.signals: list[signal.Signals] = []
        self.how: str | None = None

    def read_report(self) -> bool:
        return True

    def kill(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def ended(self) -> str | None:
        return self.how


class Clock:
    """The time, which passes as the test says."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


CLOCK = Clock()


class Fleet:
    """Workers of a supervisor that gets signals."""

    def __init__(self, count: int) -> None:
        self.began, self.ends = 0, list[bool]()
        self.lifeline_fd = os.open(os.devnull, os.O_RDONLY)
        self.jobs = Jobs(self.job(count))
        self.workers = Workers(
            self.jobs,
            selectors.PollSelector(),
            (),
            started=lambda _: None,
            reloaded=self.ends.append,
            failed=lambda error: pytest.fail(str(error)),
        )
        self.workers.start(tuple)
        self.boot_all()

    def job(self, count: int) -> Job:
        values = {"workers": count, "access_log": "off", "worker_timeout_ms": 0}
        settings = resolve(values, environ={})
        return with_siblings(Job("app", settings, "asyncio", [], None, self.lifeline_fd))

    def close(self) -> None:
        for each in list(self.workers):
            each.release()
        self.jobs.close()

    def of(self, *states: State) -> list[Worker]:
        return sorted((each for each in self.workers if each.state in states), key=pid)

    def serving(self) -> set[int]:
        return {pid(each) for each in self.of(State.SERVING)}

    def reload(self, count: int) -> None:
        self.began += 1
        job = replace(self.jobs.now, settings=self.job(count).settings)
        self.workers.reload(with_siblings(job))

    def scale(self, step: int) -> bool:
        count = self.jobs.now.settings.workers + step
        if count < 1:
            return False
        is_reload = not self.jobs.has_seats(count)
        self.jobs.resize(count)
        self.began += is_reload
        self.workers.scale(is_reload=is_reload)
        return True

    def boot(self, which: int) -> None:
        """Let one of those that start serve."""
        if starting := self.of(State.STARTING):
            each = starting[which % len(starting)]
            each.child.report["connection_bytes_max"] = 1
            each.child.is_ready = True  # type: ignore[misc]  # a Process
            self.workers.heard(each)

    def boot_all(self) -> None:
        self.pass_time(0)
        while self.of(State.STARTING):
            self.boot(0)
            self.workers.collect()
            self.pass_time(0)

    def end(self, each: Worker, how: str) -> None:
        each.child.how = how  # type: ignore[attr-defined]  # a Process
        self.workers.collect()

    def fail(self, which: int) -> None:
        """Let one of those that start end."""
        if starting := self.of(State.STARTING):
            self.end(starting[which % len(starting)], "exit status 3")

    def drained(self, which: int) -> None:
        """Let one of those that drain end."""
        if draining := self.of(State.DRAINING):
            self.end(draining[which % len(draining)], "exit status 0")

    def exceed(self, which: int) -> None:
        """Let one that serves have served as many requests as it shall."""
        serving = self.of(State.SERVING)
        each = serving[which % len(serving)]
        each.child.report["requests"] = 5
        self.workers.heard(each)

    def pass_time(self, seconds: float) -> None:
        CLOCK.now += seconds
        self.workers.do_what_is_due(CLOCK.now)


def pid(each: Worker) -> int:
    return each.child.pid


class Seats:
    """Siblings that need no descriptor."""

    def __init__(self, count: int) -> None:
        pass

    def clear(self, seat: int) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def faked() -> Iterator[None]:
    def start(work: object, close_fds: Collection[int], signals: Collection[int]) -> Process:
        return Process()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bolide.server.child.start", start)
        patch.setattr(module, "time", CLOCK)
        patch.setattr(_core, "Siblings", Seats)
        patch.setattr("bolide.server.capacity.raise_descriptor_limit", lambda _: None)
        yield


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    made = Fleet(request.param)
    yield made
    made.close()


def states(fleet: Fleet) -> list[tuple[int, str]]:
    return sorted((each.number, each.state.name) for each in fleet.workers)


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_reload_to_fewer_workers_drains_those_left_over_at_its_end(fleet: Fleet) -> None:
    before = fleet.serving()
    fleet.reload(2)
    assert fleet.serving() == before and len(fleet.of(State.STARTING)) == 1
    fleet.boot(0)
    assert len(fleet.serving() & before) == 3 and not fleet.ends
    fleet.boot(0)
    assert fleet.ends == [True] and fleet.workers.count == 2
    assert len(fleet.serving()) == 2 and not fleet.serving() & before


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_one_that_fails_leaves_exactly_those_that_served(fleet: Fleet) -> None:
    before, job = fleet.serving(), fleet.jobs.now
    fleet.reload(1)
    fleet.fail(0)
    assert fleet.ends == [False] and fleet.workers.count == 4
    assert states(fleet) == [(number, "SERVING") for number in (1, 2, 3, 4)]
    assert fleet.serving() == before and fleet.jobs.now is job


@pytest.mark.parametrize("fleet", [1], indirect=True)
def test_workers_that_were_added_are_kept_by_a_reload_that_fails(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.scale(1)
        fleet.boot_all()
    before = fleet.serving()
    assert len(before) == 4
    fleet.ends.clear()
    fleet.reload(1)
    assert fleet.serving() == before
    fleet.fail(0)
    assert fleet.ends == [False] and fleet.serving() == before and fleet.workers.count == 4


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_workers_that_a_failed_reload_has_added_are_drained(fleet: Fleet) -> None:
    before = fleet.serving()
    fleet.reload(4)
    fleet.pass_time(0)
    assert [each.number for each in fleet.of(State.STARTING)] == [1, 3, 4]
    fleet.boot(1)  # worker 3
    fleet.fail(1)  # worker 4
    assert fleet.ends == [False] and fleet.serving() == before and fleet.workers.count == 2


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_no_worker_of_the_new_code_starts_in_a_place_that_is_left_over(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.reload(1)
    fleet.end(fleet.of(State.SERVING)[3], "signal SIGSEGV")
    assert "signal SIGSEGV; another one starts only if the reload fails" in caplog.text
    fleet.pass_time(60)
    assert [each.number for each in fleet.of(State.STARTING)] == [1]
    (starting,) = fleet.of(State.STARTING)
    limit_s = starting.job.settings.upgrade_timeout_ms / 1000
    assert fleet.workers.next_due() == starting.child.born + limit_s
    fleet.fail(0)
    fleet.pass_time(0)
    (again,) = fleet.of(State.STARTING)
    assert (again.number, again.job) == (4, fleet.jobs.now)


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_scaling_during_a_reload_is_kept_whatever_becomes_of_it(fleet: Fleet) -> None:
    fleet.reload(2)
    fleet.scale(1)  # 3, and 5 if it fails
    assert fleet.workers.count == 5 and len(fleet.serving()) == 4
    fleet.scale(-1)
    fleet.scale(-1)  # 1, and 3
    assert fleet.workers.count == 3 and len(fleet.serving()) == 3
    fleet.fail(0)
    assert fleet.ends == [False] and len(fleet.serving()) == 3


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_second_reload_may_need_those_that_the_first_left_over(fleet: Fleet) -> None:
    before = fleet.serving()
    fleet.reload(1)
    fleet.reload(3)
    assert fleet.serving() == before
    fleet.boot_all()
    assert fleet.ends == [True] and fleet.workers.count == 3
    assert len(fleet.serving()) == 3 and not fleet.serving() & before


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_a_startup_that_blocks_does_not_outlast_the_reload_that_gives_it_up(fleet: Fleet) -> None:
    fleet.reload(2)
    (given_up,) = fleet.of(State.STARTING)
    fleet.reload(2)
    assert given_up.state is State.DRAINING and given_up.due == CLOCK.now + 2.0
    fleet.pass_time(2.0)
    assert vars(given_up.child)["signals"] == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_one_that_serves_although_it_was_given_up_has_the_time_of_a_drain(fleet: Fleet) -> None:
    fleet.reload(2)
    (given_up,) = fleet.of(State.STARTING)
    fleet.reload(2)
    fleet.pass_time(1.9)
    given_up.child.report["connection_bytes_max"] = 1
    given_up.child.is_ready = True  # type: ignore[misc]  # a Process
    fleet.workers.heard(given_up)
    assert given_up.state is State.DRAINING
    graceful_s = given_up.job.settings.graceful_timeout_ms / 1000
    assert given_up.due == CLOCK.now + graceful_s + KILL_AFTER_S
    fleet.pass_time(1.0)
    given_up.child.report["leaving"] = True
    fleet.workers.heard(given_up)
    assert vars(given_up.child)["signals"] == [signal.SIGTERM]
    fleet.pass_time(graceful_s)
    assert vars(given_up.child)["signals"] == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("fleet", [2], indirect=True)
@pytest.mark.parametrize("report", [{"leaving": True}, {"ready": False, "message": "broken"}])
def test_a_start_that_has_failed_is_killed_unless_it_ends(
    fleet: Fleet, report: dict[str, object]
) -> None:
    fleet.reload(2)
    (failed,) = fleet.of(State.STARTING)
    failed.child.report |= report
    fleet.workers.heard(failed)
    assert failed.due == CLOCK.now + STARTUP_S
    fleet.pass_time(STARTUP_S / 2)
    fleet.workers.heard(failed)  # which is no reason for more time
    fleet.pass_time(STARTUP_S / 2)
    assert vars(failed.child)["signals"][-1] is signal.SIGKILL
    fleet.end(failed, "signal SIGKILL")
    assert fleet.ends == [False] and len(fleet.serving()) == 2


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_a_start_that_fails_during_a_stop_has_no_more_time(fleet: Fleet) -> None:
    fleet.reload(2)
    (starting,) = fleet.of(State.STARTING)
    fleet.workers.stop(signal.SIGTERM)
    starting.child.report["message"] = "its report is malformed"
    fleet.pass_time(STARTUP_S / 2)
    fleet.workers.heard(starting)
    fleet.pass_time(STARTUP_S / 2)
    assert vars(starting.child)["signals"][-1] is signal.SIGKILL


WHICH = st.integers(0, 7)
EVENTS = st.one_of(
    st.tuples(st.just("reload"), st.integers(1, 5)),
    st.tuples(st.just("scale"), st.sampled_from((1, -1))),
    st.tuples(st.just("boot"), WHICH),
    st.tuples(st.just("fail"), WHICH),
    st.tuples(st.just("drained"), WHICH),
    st.tuples(st.just("exceed"), WHICH),
    st.tuples(st.just("pass_time"), st.just(0.2)),
)


LEFT_OVER = [
    ("reload", 2),
    ("scale", 1),
    ("scale", 1),
    ("pass_time", 0.2),
    ("boot", 3),
    ("reload", 2),
]
"""The only new worker that serves is in a slot that the next reload does not need."""


@settings(max_examples=400, deadline=None)
@example(1, LEFT_OVER)
@example(1, [("reload", 2), ("boot", 0), ("drained", 0), ("scale", -1)])
@given(st.integers(1, 4), st.lists(EVENTS, max_size=40))
def test_no_schedule_has_fewer_workers_serve_than_there_were_or_shall_be(
    count: int, events: list[tuple[str, int]]
) -> None:
    fleet = Fleet(count)
    try:
        _run(fleet, count, events)
    finally:
        fleet.close()


def _run(fleet: Fleet, after_failure: int, events: list[tuple[str, int]]) -> None:
    """Let the events happen; `after_failure` is how many there are if the reload fails."""
    for name, value in events:
        was_reloading, served, ended = fleet.workers.is_reloading, fleet.serving(), len(fleet.ends)
        if name == "scale":
            is_new_reload = not fleet.jobs.has_seats(fleet.jobs.now.settings.workers + value)
            if fleet.scale(value) and (was_reloading or not is_new_reload):
                after_failure = max(1, after_failure + value)
        else:
            getattr(fleet, name)(value)
        wanted = fleet.jobs.now.settings.workers
        has_failed = fleet.ends[ended:] == [False]
        least = min(wanted, after_failure)
        assert len(fleet.serving()) >= min(len(served), least), (name, value)
        if has_failed:  # those of the highest numbers end only if the reload has added them
            assert fleet.workers.count == wanted == after_failure
            assert len(fleet.serving()) >= min(len(served), after_failure)
        elif not fleet.workers.is_reloading:
            assert fleet.workers.count == wanted
            after_failure = wanted
    _settle(fleet)


def _settle(fleet: Fleet) -> None:
    """Let everything go well: all that are wanted serve, and nothing else is left."""
    for _ in range(100):
        fleet.boot(0)
        fleet.drained(0)
        fleet.pass_time(20)
    assert states(fleet) == [(n, "SERVING") for n in range(1, fleet.jobs.now.settings.workers + 1)]
    assert not fleet.workers.is_reloading
