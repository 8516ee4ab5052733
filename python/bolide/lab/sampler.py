"""Samples what processes use, ten times a second, while a trial runs.

Processor times come from the kernel in hundredths of a second. A process that ends between two
samples keeps what was last seen of it. The proportional share of memory (PSS) costs the kernel a
walk over all pages, so it is read once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from bolide.lab.results import GeneratorUse, ServerUse

INTERVAL_S = 0.1
PSS_EVERY = 10
LIST_EVERY = 5
"""Samples between two looks for new processes."""


class ServerSampler:
    """Watches a server's whole process tree, between `with` and the block's end."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._watched: dict[int, psutil.Process] = {}
        self._cpu_first_s: dict[int, float] = {}
        self._cpu_last_s: dict[int, float] = {}
        self._switches_first: dict[int, int] = {}
        self._switches_last: dict[int, int] = {}
        self._rss_bytes_max = 0
        self._pss_bytes_max: int | None = None
        self._processes_max = 0
        self._started = self._ended = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> ServerSampler:
        self._started = time.monotonic()
        self._find(is_first=True)
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._find()
        self._look()
        self._look_at_memory()
        self._ended = time.monotonic()

    def use(self) -> ServerUse:
        """Give what was used in the time of the block."""
        if not self._cpu_last_s:
            return ServerUse()
        cpu_s = _risen(self._cpu_first_s, self._cpu_last_s)
        wall_s = self._ended - self._started
        return ServerUse(
            cpu_s=round(cpu_s, 3),
            cpu_share=round(cpu_s / wall_s, 4) if wall_s > 0 else None,
            rss_bytes_max=self._rss_bytes_max,
            pss_bytes_max=self._pss_bytes_max,
            context_switches=int(_risen(self._switches_first, self._switches_last)),
            processes=self._processes_max,
        )

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(INTERVAL_S):
            number += 1
            if number % LIST_EVERY == 0:
                self._find()
            self._look()
            if number % PSS_EVERY == 0:
                self._look_at_memory()

    def _find(self, *, is_first: bool = False) -> None:
        """Take up new processes; one that is there at the start has used time already."""
        for pid in self._pids():
            if pid in self._watched:
                continue
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                self._watched[pid] = process
                if is_first:
                    self._cpu_first_s[pid] = _cpu_s(process)
                    self._switches_first[pid] = _switches(process)

    def _look(self) -> None:
        rss_bytes = living = 0
        for pid, process in self._watched.items():
            with suppress(psutil.Error), process.oneshot():
                self._cpu_last_s[pid] = _cpu_s(process)
                self._switches_last[pid] = _switches(process)
                rss_bytes += process.memory_info().rss
                living += 1
        self._rss_bytes_max = max(self._rss_bytes_max, rss_bytes)
        self._processes_max = max(self._processes_max, living)

    def _look_at_memory(self) -> None:
        try:
            pss_bytes = sum(each.memory_full_info().pss for each in self._watched.values())
        except psutil.Error:  # gone, or another user's: no sum is better than half of one
            return
        self._pss_bytes_max = max(self._pss_bytes_max or 0, pss_bytes)


class ThreadSampler:
    """Watches the threads of a load generator, the busiest of which may be the limit."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._processes: dict[int, psutil.Process] = {}
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}
        self._switches: dict[int, int] = {}
        self._rss_bytes_max = 0

    def look(self) -> None:
        """Take one sample."""
        now = time.monotonic()
        rss_bytes = 0
        for pid in self._pids():
            with suppress(psutil.Error):
                process = self._processes.setdefault(pid, psutil.Process(pid))
                rss_bytes += process.memory_info().rss
                self._switches[pid] = _switches(process)
                for thread in process.threads():
                    sample = (now, thread.user_time + thread.system_time)
                    self._first.setdefault(thread.id, sample)
                    self._last[thread.id] = sample
        self._rss_bytes_max = max(self._rss_bytes_max, rss_bytes)

    def use(self, told_cpu_s: float | None) -> GeneratorUse:
        """Give what was used when the threads were last seen, or the time that the tool tells."""
        cpu_s = max(told_cpu_s or 0.0, sum(cpu_s for _, cpu_s in self._last.values()))
        return GeneratorUse(
            cpu_s=round(cpu_s, 3) if cpu_s else None,
            cpu_share=self.busiest_share(),
            rss_bytes_max=self._rss_bytes_max or None,
            context_switches=sum(self._switches.values()) if self._switches else None,
        )

    def busiest_share(self) -> float | None:
        """Give the share of its time in which the busiest thread ran; None if nothing was seen."""
        shares = []
        for thread, (until, cpu_s) in self._last.items():
            since, before_s = self._first[thread]
            if until - since >= 2 * INTERVAL_S:
                shares.append((cpu_s - before_s) / (until - since))
        return round(max(shares), 4) if shares else None


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _switches(process: psutil.Process) -> int:
    switches = process.num_ctx_switches()
    return int(switches.voluntary + switches.involuntary)


def _risen(
    first: dict[int, float] | dict[int, int], last: dict[int, float] | dict[int, int]
) -> float:
    return sum(value - first.get(pid, 0) for pid, value in last.items())
