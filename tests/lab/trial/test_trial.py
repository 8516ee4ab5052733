"""What a trial records of its tool and its machine."""

from __future__ import annotations

import pytest

from bolide.lab.plan.schedule import Slot
from bolide.lab.record.machine import Counters
from bolide.lab.record.schema import GeneratorUse
from bolide.lab.tools.load import Reading
from bolide.lab.trial import trial
from bolide.lab.trial.sampler import ThreadSampler
from lab.tiny_race import liar, workload


class AlwaysBusy(ThreadSampler):
    """Samples of one thread that polls, or works, all the time."""

    def __init__(self) -> None:
        super().__init__(lambda: [])
        self._first = {1: (0.0, 0.0)}
        self._last = {1: (3.0, 3.0)}
        self._samples = [(0.0, 0.0), (3.0, 3.0)]


def reading(**more: float) -> Reading:
    return Reading(
        ok=1, failed=0, errors={}, requests_per_s=1.0, seconds=3.0, latency_us=None, **more
    )


def test_a_generator_that_polls_is_as_busy_as_it_reports() -> None:
    """A point of an open loop at 15,000 requests per second: a fifth of the time is work."""
    found = trial._generator(AlwaysBusy(), reading(generator_cpu_s=0.6, generator_cpu_share=0.15))
    assert (found.cpu_s, found.cpu_share, found.processors) == (0.6, 0.15, 0.2)


def test_what_others_used_is_a_share_of_all_processors() -> None:
    assert trial._others_share(6.0, 5.4, 3.0, 2) == pytest.approx(0.1)
    assert trial._others_share(5.0, 5.1, 3.0, 2) == 0.0  # ticks are rounded


def test_a_tool_that_reports_nothing_is_as_busy_as_its_threads() -> None:
    found = trial._generator(AlwaysBusy(), reading())
    assert found == GeneratorUse(cpu_s=3.0, cpu_share=1.0, processors=1.0)


def test_interrupts_are_shares_of_the_tools_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bolide.lab.record.machine.has_own_irq_time", lambda: True)
    conditions = trial.Conditions("tiny", server_cpus=(0,), load_cpus=(1, 2), warm_up_s=0.0)
    run = trial.Run(Slot(1, workload(), liar("honest")), conditions)
    before, after = Counters([0, 1, 2]), Counters([0, 1, 2])
    before._irq_s, after._irq_s = {0: 1.0, 1: 1.0, 2: 1.0}, {0: 1.6, 1: 1.3, 2: 1.3}
    found = run._kernel(before, after, 3.0)
    assert (found.server_irq_share, found.load_irq_share) == (0.2, 0.2)
    monkeypatch.setattr("bolide.lab.record.machine.has_own_irq_time", lambda: False)
    found = run._kernel(before, after, 3.0)
    assert (found.server_irq_share, found.load_irq_share) == (None, None)
