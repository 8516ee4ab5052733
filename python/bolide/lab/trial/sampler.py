"""Samples what processes use, ten times a second, while a trial runs.

It runs on the same machine as what it measures, so it reads as little of /proc as possible. Each
sample has processor times and resident memory. New processes and the proportional share of memory
(PSS), for which the kernel visits all pages, are read once a second. Context switches and times of
threads, which need a file for each thread, are read at the start and the end. A process that ends
between two samples counts with its last values, or with the processor time of its parent's children
if that is more.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from bolide.lab.record.schema import GeneratorUse, ServerUse

INTERVAL_S = 0.1
PSS_EVERY = 10
PSS_FIRST = (2, 5)
"""Early samples that read it too, because some loads last less than a second."""
LIST_EVERY = 10
"""Samples between two searches for new processes."""

FIRST_SAMPLES = 3
"""The first samples all search for new threads, because a tool starts its threads then."""

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss: +(\d+) kB", re.MULTILINE)
_SWITCHES = re.compile(rb"^(?:non)?voluntary_ctxt_switches:\t(\d+)", re.MULTILINE)


class ServerSampler:
    """Samples a server's whole process tree during a `with` block.

    The code in the block calls `sample` ten times a second. A separate thread would cost another
    wake-up per sample, on the processor of the load.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._watched: dict[int, _Stat] = {}
        self._cpu_first_s: dict[int, float] = {}
        self._cpu_last_s: dict[int, float] = {}
        self._children_first_s: dict[int, float] = {}
        self._children_last_s: dict[int, float] = {}
        """Processor time of children that a process has waited for."""
        self._switches_first: dict[int, int] = {}
        self._switches_last: dict[int, int] = {}
        self._threads_first_s: dict[int, float] = {}
        self._threads_last_s: dict[int, float] = {}
        self._rss_bytes_start: int | None = None
        self._rss_bytes_process: int | None = None
        self._rss_bytes_max = 0
        self._pss_bytes_max: int | None = None
        self._processes_max = 0
        self._samples: list[tuple[float, float]] = []
        """Times, and the processor time that all processes had used until then, in seconds."""
        self._count = 0

    def __enter__(self) -> ServerSampler:
        self._add_new(is_first=True)
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._add_new()
        self._read()
        self._read_memory()
        self._read_threads()

    def use(self, seconds: float | None = None) -> ServerUse:
        """Return what was used during the block.

        The processor share is that of its busiest `seconds`, because the load does not last for all
        of it.
        """
        if not self._cpu_last_s:
            return ServerUse()
        share = busiest_share(self._samples, seconds)
        return ServerUse(
            cpu_s=round(self._used_s(), 3),
            cpu_share=None if share is None else round(share, 4),
            thread_share=None if share is None else round(share * self._part_of_busiest(), 4),
            rss_bytes_start=self._rss_bytes_start,
            rss_bytes_process=self._rss_bytes_process,
            rss_bytes_max=self._rss_bytes_max,
            pss_bytes_max=self._pss_bytes_max,
            context_switches=int(_increase(self._switches_first, self._switches_last)),
            processes=self._processes_max,
        )

    def sample(self) -> None:
        """Take one sample."""
        self._count += 1
        if self._count % LIST_EVERY == 0:
            self._add_new()
        self._read()
        if self._count % PSS_EVERY == 0 or self._count in PSS_FIRST:
            self._read_memory()

    def _add_new(self, *, is_first: bool = False) -> None:
        """Add new processes; those that exist at the start have already used time."""
        for pid in self._pids():
            if pid in self._watched:
                continue
            with suppress(OSError):
                self._watched[pid] = _Stat(f"/proc/{pid}")
                if is_first:
                    times = self._watched[pid].read()
                    self._cpu_first_s[pid], self._children_first_s[pid], _ = times
                    self._switches_first[pid] = _switches(pid)
                    self._threads_first_s.update(_thread_times_s(pid))

    def _read(self) -> None:
        """Read all processes; those that have ended are dropped, their time still counts."""
        rss_bytes = largest_bytes = 0
        for pid, stat in list(self._watched.items()):
            rss = 0
            with suppress(OSError):
                self._cpu_last_s[pid], self._children_last_s[pid], rss = stat.read()
            rss_bytes += rss
            largest_bytes = max(largest_bytes, rss)
            if not rss:  # also a zombie: its memory is gone
                del self._watched[pid]
        if self._rss_bytes_start is None:
            self._rss_bytes_start, self._rss_bytes_process = rss_bytes, largest_bytes
        self._rss_bytes_max = max(self._rss_bytes_max, rss_bytes)
        self._processes_max = max(self._processes_max, len(self._watched))
        self._samples.append((time.monotonic(), self._used_s()))

    def _used_s(self) -> float:
        """Return the processor time of all processes, also of those that ended unseen.

        These are in the time of the children of their parents, together with those that were seen.
        """
        ended = self._cpu_last_s.keys() - self._watched.keys()
        seen_s = sum(self._cpu_last_s[pid] + self._children_last_s[pid] for pid in ended)
        children_s = _increase(self._children_first_s, self._children_last_s)
        own_s = _increase(self._cpu_first_s, self._cpu_last_s)
        return own_s + max(0.0, children_s - seen_s)

    def _read_memory(self) -> None:
        if not self._watched:
            return
        try:
            pss_bytes = sum(_pss_bytes(pid) for pid in self._watched)
        except OSError:  # it has just ended, or is another user's; a partial sum would be wrong
            return
        self._pss_bytes_max = max(self._pss_bytes_max or 0, pss_bytes)

    def _read_threads(self) -> None:
        for pid in self._watched:
            with suppress(OSError):
                self._switches_last[pid] = _switches(pid)
                self._threads_last_s.update(_thread_times_s(pid))

    def _part_of_busiest(self) -> float:
        """Return which part of all processor time is that of the busiest thread."""
        used_s = self._used_s()
        if not used_s:
            return 0.0
        first_s = self._threads_first_s
        each_s = (last - first_s.get(thread, 0.0) for thread, last in self._threads_last_s.items())
        return min(1.0, max(each_s, default=0.0) / used_s)


class ThreadSampler:
    """Samples the threads of a load generator, the busiest of which may be the limit."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._count = 0
        self._threads: dict[int, dict[int, _Stat]] = {}
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}
        self._switches: dict[int, int] = {}
        self._rss_bytes_max = 0
        self._samples: list[tuple[float, float]] = []
        """Times, and the processor seconds that all threads had used until then."""

    def sample(self) -> None:
        """Take one sample."""
        if self._count < FIRST_SAMPLES or self._count % LIST_EVERY == 0:
            self._add_new()
        self._count += 1
        now = time.monotonic()
        rss_bytes = 0
        for threads in self._threads.values():
            rss = 0
            for thread, stat in threads.items():
                with suppress(OSError):
                    cpu_s, _, rss = stat.read()  # every thread reports the memory of its process
                    self._first.setdefault(thread, (now, cpu_s))
                    self._last[thread] = (now, cpu_s)
            rss_bytes += rss
        self._rss_bytes_max = max(self._rss_bytes_max, rss_bytes)
        self._samples.append((now, sum(cpu_s for _, cpu_s in self._last.values())))

    def _add_new(self) -> None:
        """Add new threads, and count context switches, which also takes a file per thread."""
        for pid in self._pids():
            with suppress(OSError):
                known = self._threads.setdefault(pid, {})
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if thread not in known:
                        known[thread] = _Stat(f"/proc/{pid}/task/{thread}")
                self._switches[pid] = _switches(pid)

    def use(self, reported_cpu_s: float | None, seconds: float | None = None) -> GeneratorUse:
        """Return what the threads had used when last sampled, or the time that the tool reports.

        The processors are those of the busiest `seconds`, because a tool takes time to start.
        """
        processors = busiest_share(self._samples, seconds) if self._last else None
        cpu_s = max(reported_cpu_s or 0.0, sum(cpu_s for _, cpu_s in self._last.values()))
        return GeneratorUse(
            cpu_s=round(cpu_s, 3) if cpu_s else None,
            cpu_share=self.busiest_share(),
            processors=None if processors is None else round(processors, 4),
            rss_bytes_max=self._rss_bytes_max or None,
            context_switches=sum(self._switches.values()) if self._switches else None,
        )

    def busiest_share(self) -> float | None:
        """Return the share of time in which the busiest thread ran; None without samples."""
        shares = []
        for thread, (until, cpu_s) in self._last.items():
            since, before_s = self._first[thread]
            if until - since >= 2 * INTERVAL_S:
                shares.append((cpu_s - before_s) / (until - since))
        return round(max(shares), 4) if shares else None


def busiest_share(
    samples: Sequence[tuple[float, float]], seconds: float | None = None
) -> float | None:
    """Return the largest share of a processor in any window of `seconds`, or in all samples.

    Samples are times with the processor seconds until then, which increase evenly between two of
    them. None if they span no time.
    """
    if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
        return None
    first_s, last_s = samples[0][0], samples[-1][0]
    if not seconds or seconds >= last_s - first_s:
        return (samples[-1][1] - samples[0][1]) / (last_s - first_s)
    # The busiest window starts or ends at a sample.
    starts = {at_s for at_s, _ in samples if at_s + seconds <= last_s}
    starts |= {at_s - seconds for at_s, _ in samples if at_s - seconds >= first_s}
    return (
        max((_used_until(samples, s + seconds) - _used_until(samples, s)) for s in starts) / seconds
    )


def _used_until(samples: Sequence[tuple[float, float]], at_s: float) -> float:
    """Return the processor seconds until a time between the first sample and the last one."""
    after = bisect_left(samples, at_s, lo=1, hi=len(samples) - 1, key=itemgetter(0))
    (one_s, one_cpu_s), (two_s, two_cpu_s) = samples[after - 1], samples[after]
    if two_s <= one_s:
        return two_cpu_s
    return one_cpu_s + (two_cpu_s - one_cpu_s) * (at_s - one_s) / (two_s - one_s)


class _Stat:
    """The file `stat` of a process or thread (proc_pid_stat(5)), kept open: opening is slow."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(f"{folder}/stat", os.O_RDONLY)

    def read(self) -> tuple[float, float, int]:
        """Return processor seconds, those of children that were waited for, and resident bytes.

        Raises:
            OSError: the process has ended.
        """
        fields = os.pread(self._file, 1024, 0).rpartition(b")")[2].split()
        if len(fields) < 22:
            raise ProcessLookupError
        own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        return own * _TICK_S, children * _TICK_S, int(fields[21]) * _PAGE_BYTES

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never opened
            os.close(self._file)


def _pss_bytes(pid: int) -> int:
    found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    if found is None:
        raise ProcessLookupError(pid)
    return int(found[1]) * 1024


def _switches(pid: int) -> int:
    """Count the context switches of all threads of a process."""
    return sum(
        int(count)
        for thread in os.listdir(f"/proc/{pid}/task")
        for count in _SWITCHES.findall(Path(f"/proc/{pid}/task/{thread}/status").read_bytes())
    )


def _thread_times_s(pid: int) -> dict[int, float]:
    """Return the processor seconds of each thread of a process.

    Raises:
        OSError: it has ended.
    """
    found = {}
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        with suppress(OSError):  # this thread has ended
            found[thread], *_ = _Stat(f"/proc/{pid}/task/{thread}").read()
    return found


def _increase(
    first: dict[int, float] | dict[int, int], last: dict[int, float] | dict[int, int]
) -> float:
    return sum(value - first.get(pid, 0) for pid, value in last.items())
