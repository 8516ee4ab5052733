"""What a process is said to have used is what it used; what was not seen is unknown."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from bolide.lab.record.schema import GeneratorUse, ServerUse
from bolide.lab.trial import sampler
from bolide.lab.trial.guard import descendants
from bolide.lab.trial.sampler import ServerSampler, ThreadSampler

pytestmark = pytest.mark.slow

WORKER = """\
import os, queue, sys, threading, time

asked, responded = queue.SimpleQueue(), queue.SimpleQueue()

def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

def serve():
    while True:
        burn(asked.get())
        responded.put(None)

def beside(seconds):
    asked.put(seconds)
    responded.get()

def hold(mebibytes):
    global held
    held = b"x" * (int(mebibytes) << 20)

def nothing(_):
    pass

def fork(seconds):
    if not (child := os.fork()):
        burn(seconds)
        os._exit(0)
    os.waitpid(child, 0)

threading.Thread(target=serve, daemon=True).start()
for line in sys.stdin:
    name, value = line.split()
    ways = {"burn": burn, "beside": beside, "fork": fork, "hold": hold, "nothing": nothing}
    ways[name](float(value))
    print(name, time.process_time(), flush=True)
"""
"""Does what each line of its input says, `beside` by a second thread; then says that it
has, and the processor time that it has used so far."""

TICK_S = 0.01


class Worker:
    """A process that uses a given amount, and reports how much processor time that took."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.used_s = 0.0
        self("nothing", 0)

    def __call__(self, name: str, value: float) -> float:
        """Have it do one thing, to its end; return the seconds used since the last thing."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, value, file=self.process.stdin, flush=True)
        said, used_s = self.process.stdout.readline().split()
        assert said == name
        before_s, self.used_s = self.used_s, float(used_s)
        return self.used_s - before_s

    def end(self) -> None:
        self.process.communicate()


Start = Callable[[], Worker]


@pytest.fixture
def start() -> Iterator[Start]:
    workers: list[Worker] = []

    def start() -> Worker:
        workers.append(Worker())
        return workers[-1]

    yield start
    for each in workers:
        each.end()


class Living(list[int]):
    """The processes that are there."""

    def __call__(self) -> list[int]:
        return list(self)


@pytest.fixture
def at_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "LIST_EVERY", 1)
    monkeypatch.setattr(sampler, "PSS_EVERY", 1)


def test_the_time_of_the_block_counts(start: Start) -> None:
    worker = start()
    worker("burn", 0.2)
    with ServerSampler(lambda: [worker.pid]) as watching:
        used_s = worker("burn", 0.3)
    use = watching.use()
    assert used_s >= 0.3 and use.cpu_s == pytest.approx(used_s, abs=5 * TICK_S)
    assert use.cpu_share is not None and 0 < use.cpu_share <= 1.2
    assert use.processes == 1


@pytest.mark.parametrize(("beside_s", "part"), [(0.0, 1.0), (0.3, 0.5), (0.9, 0.75)])
def test_the_busiest_thread_has_its_part(beside_s: float, part: float, start: Start) -> None:
    worker = start()
    worker("beside", 0.2)
    with ServerSampler(lambda: [worker.pid]) as watching:
        worker("burn", 0.3)
        worker("beside", beside_s)
    use = watching.use()
    assert use.cpu_share and use.thread_share
    assert use.thread_share / use.cpu_share == pytest.approx(part, abs=0.1)


SAMPLES = [(0.0, 0.0), (1.0, 0.1), (2.0, 1.1), (3.0, 2.1), (4.0, 2.2)]
"""A second of making connections, two of load, one of closing."""
FAST = [(0.0, 0.0), (0.1, 0.0), (0.2, 0.1), (0.3, 0.2), (0.4, 0.25), (0.5, 0.26)]
"""A quarter of a second of load."""


@pytest.mark.parametrize(
    ("samples", "seconds", "share"),
    [
        (SAMPLES, 2.0, 1.0),
        (SAMPLES, 3.0, 0.7),
        (SAMPLES, 2.5, 0.82),  # from 1.0, or until 3.0 s
        (FAST, 0.25, 0.9),
        (FAST, 0.3, 0.25 / 0.3),
        (SAMPLES, None, 0.55),
        (SAMPLES, 9.0, 0.55),
        (SAMPLES[:1], 1.0, None),
        ([(1.0, 0.5), (1.0, 0.6)], 1.0, None),
    ],
)
def test_the_share_is_that_of_the_load(
    samples: list[tuple[float, float]], seconds: float | None, share: float | None
) -> None:
    found = sampler.busiest_share(samples, seconds)
    assert found == (None if share is None else pytest.approx(share))


def test_an_idle_one_uses_nothing_which_is_known(start: Start) -> None:
    worker = start()
    with ServerSampler(lambda: [worker.pid]) as watching:
        pass
    use = watching.use()
    assert use.cpu_s == pytest.approx(0.0, abs=2 * TICK_S)
    assert use.context_switches is not None and use.context_switches < 20


def test_memory_is_the_most_that_was_held(start: Start) -> None:
    worker = start()
    with ServerSampler(lambda: [worker.pid]) as watching:
        pass
    before = watching.use()
    with ServerSampler(lambda: [worker.pid]) as watching:
        worker("hold", 64)
    use = watching.use()
    for less, more in (
        (before.rss_bytes_max, use.rss_bytes_max),
        (before.pss_bytes_max, use.pss_bytes_max),
    ):
        assert less is not None and more is not None
        assert more - less == pytest.approx(64 << 20, abs=4 << 20)
    assert (use.pss_bytes_max or 0) <= (use.rss_bytes_max or 0)


@pytest.mark.usefixtures("at_each_sample")
def test_what_was_held_in_the_middle_counts(start: Start) -> None:
    worker = start()
    living = Living([worker.pid])
    with ServerSampler(living) as watching:
        worker("hold", 64)
        watching.sample()
        worker("hold", 1)
    assert (watching.use().rss_bytes_max or 0) > 64 << 20
    assert (watching.use().pss_bytes_max or 0) > 64 << 20


def test_waiting_is_a_context_switch(start: Start) -> None:
    worker = start()
    with ServerSampler(lambda: [worker.pid]) as watching:
        for _ in range(100):
            worker("nothing", 0)
    switches = watching.use().context_switches
    assert switches is not None and 99 <= switches < 2000


@pytest.mark.usefixtures("at_each_sample")
def test_processes_that_come_and_go_count(start: Start) -> None:
    first = start()
    first("burn", 0.1)
    living = Living([first.pid])
    with ServerSampler(living) as watching:
        second = start()
        living.append(second.pid)
        second("burn", 0.2)
        watching.sample()
        second.process.communicate()
        living.remove(second.pid)
        used_s = second.used_s + first("burn", 0.1)
    use = watching.use()
    assert second.used_s >= 0.2 and use.cpu_s == pytest.approx(used_s, abs=5 * TICK_S)
    assert use.processes == 2


def test_children_that_ended_between_two_samples_count(start: Start) -> None:
    """A server that forks for each request has no other process that was busy."""
    worker = start()
    worker("fork", 0.2)  # before the block
    with ServerSampler(lambda: [worker.pid]) as watching:
        for _ in range(3):
            own_s = worker("fork", 0.1)
            watching.sample()
    use = watching.use()
    assert own_s < 0.05
    assert use.cpu_s is not None and 0.3 - 3 * TICK_S <= use.cpu_s < 0.5
    assert use.cpu_share is not None and use.cpu_share > 0
    assert use.processes == 1


@pytest.mark.usefixtures("at_each_sample")
def test_children_that_were_seen_do_not_count_twice(start: Start) -> None:
    """They have been sampled, and their parent's children have used the same time."""
    worker = start()
    assert worker.process.stdin is not None and worker.process.stdout is not None
    with ServerSampler(lambda: [worker.pid, *descendants(worker.pid)]) as watching:
        print("fork", 0.4, file=worker.process.stdin, flush=True)
        while not select.select([worker.process.stdout], [], [], 0.02)[0]:
            watching.sample()
        worker.process.stdout.readline()
        watching.sample()
    use = watching.use()
    assert use.processes == 2
    assert use.cpu_s is not None and 0.4 - 3 * TICK_S <= use.cpu_s < 0.6


def test_one_that_is_gone_takes_no_memory_and_its_time_counts(start: Start) -> None:
    first, second, third = start(), start(), start()
    zombie = subprocess.Popen([sys.executable, "-I", "-c", ""])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    pids = [first.pid, second.pid, third.pid]
    with ServerSampler(lambda: [*pids, zombie.pid]) as watching:
        used_s = second("burn", 0.2)
        watching.sample()
        second.process.communicate()
    zombie.wait()
    use = watching.use()
    assert used_s >= 0.2 and use.cpu_s == pytest.approx(used_s, abs=5 * TICK_S)
    assert use.pss_bytes_max and use.rss_bytes_max
    assert 1 << 20 < use.pss_bytes_max < use.rss_bytes_max
    assert use.processes == 3


def test_memory_of_one_that_goes_meanwhile_is_no_sum(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    pss_bytes = sampler._pss_bytes

    def gone(pid: int) -> int:
        if pid == second.pid:
            raise ProcessLookupError(pid)
        return pss_bytes(pid)

    monkeypatch.setattr(sampler, "_pss_bytes", gone)
    with ServerSampler(lambda: [first.pid, second.pid]) as watching:
        pass
    use = watching.use()
    assert use.pss_bytes_max is None
    assert use.rss_bytes_max and use.processes == 2


def _gone(start: Start) -> int:
    worker = start()
    worker.process.communicate()
    return worker.pid


def test_what_was_not_seen_is_unknown(start: Start) -> None:
    for pids in (Living(), Living([_gone(start)])):
        with ServerSampler(pids) as watching:
            pass
        assert watching.use() == ServerUse()
        threads = ThreadSampler(pids)
        threads.sample()
        assert threads.use(None) == GeneratorUse()


def test_the_busiest_thread_is_reported(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads, by a clock of the test's own."""
    worker = start()
    now_s = 100.0
    monkeypatch.setattr("bolide.lab.trial.sampler.time.monotonic", lambda: now_s)
    threads = ThreadSampler(lambda: [worker.pid])
    threads.sample()
    worker("burn", 0.1)
    worker("beside", 0.3)
    now_s = 100.5
    threads.sample()
    assert threads.busiest_share() == pytest.approx(0.6, abs=0.08)
    use = threads.use(None)
    assert use.cpu_s is not None and use.cpu_s >= 0.4 - 2 * TICK_S
    assert use.rss_bytes_max and use.rss_bytes_max > 1 << 20
    assert use.context_switches
    assert threads.use(9.0).cpu_s == 9.0
    assert threads.use(0.001).cpu_s == use.cpu_s


def test_a_thread_that_was_hardly_seen_has_no_share(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start()
    now_s = 100.0
    monkeypatch.setattr("bolide.lab.trial.sampler.time.monotonic", lambda: now_s)
    threads = ThreadSampler(lambda: [worker.pid])
    threads.sample()
    assert threads.busiest_share() is None
    now_s = 100.0 + sampler.INTERVAL_S
    threads.sample()
    assert threads.busiest_share() is None
    now_s = 100.01 + 2 * sampler.INTERVAL_S
    threads.sample()
    assert threads.busiest_share() == pytest.approx(0.0, abs=0.1)
