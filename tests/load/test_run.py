"""One run of an engine that is not there."""

from typing import Any

import pytest

from bolide.errors import ConfigError, Error
from bolide.load import run
from load.samples import FakeLoad, report


class Recorder:
    interval_s = 0.5

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.is_closed = False

    def show(self, progress: dict[str, Any]) -> None:
        assert not self.is_closed
        self.shown.append(progress)

    def close(self) -> None:
        self.is_closed = True


def test_a_run_goes_to_its_end() -> None:
    made: list[FakeLoad] = []

    def make(plan: dict[str, Any]) -> FakeLoad:
        made.append(FakeLoad(plan, report(ok=7)))
        return made[-1]

    shown = Recorder()
    outcome = run.run({"a": 1}, shown, make)
    assert outcome.report["ok"] == 7 and not outcome.was_interrupted
    assert made[0].plan == {"a": 1}
    ran = ["start", "wait", "progress", "wait", "progress", "wait", "stop", "wait", "report"]
    assert made[0].calls == ran
    assert len(shown.shown) == 2 and shown.is_closed


def test_an_interrupt_is_reported_after_the_end() -> None:
    def interrupt(left: int) -> None:
        if left == 1:
            raise KeyboardInterrupt

    shown = Recorder()
    outcome = run.run({}, shown, lambda plan: FakeLoad(plan, report(ok=5), on_wait=interrupt))
    assert outcome.was_interrupted and outcome.report["ok"] == 5
    assert shown.is_closed


@pytest.mark.parametrize("call", ["stop", "wait"])
def test_a_second_interrupt_loses_nothing(call: str) -> None:
    class Interrupted(FakeLoad):
        has_interrupted = False

        def interrupt(self, name: str) -> None:
            if name == call and "wait" in self.calls and not self.has_interrupted:
                self.has_interrupted = True
                raise KeyboardInterrupt

        def stop(self) -> None:
            self.interrupt("stop")
            super().stop()

        def wait(self, timeout_s: float) -> bool:
            if "stop" in self.calls:
                self.interrupt("wait")
            return super().wait(timeout_s)

    def interrupt(left: int) -> None:
        raise KeyboardInterrupt

    shown = Recorder()
    made = Interrupted({}, report(ok=5), on_wait=interrupt)
    outcome = run.run({}, shown, lambda plan: made)
    assert made.has_interrupted
    assert outcome.was_interrupted and outcome.report["ok"] == 5
    assert shown.is_closed


def test_the_display_is_closed_if_the_engine_cannot_be_stopped() -> None:
    class Lost(FakeLoad):
        def stop(self) -> None:
            raise Error("no agent can be reached")

    shown = Recorder()
    with pytest.raises(Error, match="no agent"):
        run.run({}, shown, lambda plan: Lost(plan, report()))
    assert shown.is_closed


def test_a_time_can_end_a_run_that_counts() -> None:
    made = FakeLoad({}, report(), waits=10**9)
    outcome = run.run({}, Recorder(), lambda plan: made, stop_after_s=0.02)
    assert not outcome.was_interrupted
    assert made.calls[-3:] == ["stop", "wait", "report"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("threads: leave\nsome"), "threads: leave some"),
        (OSError(24, "Too many open files"), "cannot start the load: Too many open files"),
        (OSError("1,000 descriptors are too few"), "1,000 descriptors are too few"),
    ],
)
def test_what_the_engine_refuses_is_a_mistake(error: Exception, says: str) -> None:
    def make(plan: dict[str, Any]) -> FakeLoad:
        raise error

    with pytest.raises(ConfigError) as caught:
        run.run({}, Recorder(), make)
    assert str(caught.value) == says


def test_a_thread_that_could_not_begin_is_a_mistake() -> None:
    class Broken(FakeLoad):
        def report(self) -> str:
            raise OSError("cannot run on CPU 99: Invalid argument (os error 22)")

    with pytest.raises(ConfigError, match="^cannot run on CPU 99: Invalid argument"):
        run.run({}, Recorder(), lambda plan: Broken(plan, report()))


def test_an_engine_that_does_not_end_is_an_error() -> None:
    class Stuck(FakeLoad):
        def wait(self, timeout_s: float) -> bool:
            return False

    with pytest.raises(Error, match="the load engine did not end"):
        run.run({}, Recorder(), lambda plan: Stuck(plan, report()), stop_after_s=0.001)
