"""What workers do: the job of those that start from now on, and that of before a reload.

A reload that fails changes nothing: workers that start after it do what those before it did. So the
job of before is kept, with the descriptor of its access log, until the reload has ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bolide import _core
from bolide.server import capacity
from bolide.server.process.access_log import open_access_log

if TYPE_CHECKING:
    from bolide.server.worker import Job


class Jobs:
    """The job of now, which owns its descriptors, and the one to return to."""

    def __init__(self, first: Job) -> None:
        self.now = first
        """What workers do that start from now on."""
        self._before: Job | None = None
        """The last one that all workers have done, while a reload has not ended."""

    def begin(self, job: Job) -> None:
        """Begin a reload, or another one in place of one that has not ended."""
        replaced, self.now = self.now, job
        if self._before is None:
            self._before = replaced
        else:
            self._release(replaced)

    def complete(self) -> None:
        """Forget the job of before, because all workers do the new one."""
        replaced, self._before = self._before, None
        if replaced is not None:
            self._release(replaced)

    def undo(self) -> None:
        """Return to the job of before, because the reload has failed."""
        if self._before is not None:
            replaced, self.now, self._before = self.now, self._before, None
            self._release(replaced)

    @property
    def slots(self) -> int:
        """How many workers there must be a place for: a reload that has not ended may fail."""
        counts = [each.settings.workers for each in (self.now, self._before) if each is not None]
        return max(counts)

    def has_seats(self, count: int) -> bool:
        """Return whether so many workers fit among the siblings of those that run."""
        return self.now.seats >= capacity.seats(count)

    def resize(self, count: int) -> None:
        """Have a job for so many workers; one of before, for as many more or less than it had.

        If they do not fit among the siblings of those that run, this begins a reload. Those of the
        job before get other siblings, if they do not fit: if the reload fails, workers that start
        then share no connections with those that serve, until the next reload.

        Raises:
            ConfigError: processes may open too few files for them; then nothing has changed.
            OSError: the system has no descriptor or memory left; neither has anything then.
        """
        before, more = self._before, count - self.now.settings.workers
        most = replace(self.now.settings, workers=max(count, self.slots + more))
        capacity.raise_descriptor_limit(most)
        job = with_count(self.now, count)
        if before is not None:
            before = with_count(before, max(1, before.settings.workers + more))
        if self.has_seats(count):
            self.now = job
        else:
            self.begin(job)
        if before is not None:
            self._before = before

    def reopen_logs(self) -> Mapping[str, int]:
        """Open the access logs again; return their descriptors by path, which stay this object's.

        Raises:
            ConfigError: one cannot be written; then all stay as they were.
        """
        jobs = [each for each in (self.now, self._before) if each is not None]
        opened: dict[str, int] = {}
        try:
            for path in {each.settings.access_log for each in jobs if each.settings.has_log_file}:
                fd = open_access_log(path)
                if fd is not None:
                    opened[path] = fd
        except BaseException:
            for fd in opened.values():
                os.close(fd)
            raise
        self.now = with_log(self.now, opened)
        if self._before is not None:
            self._before = with_log(self._before, opened)
        self._release(*jobs)
        return opened

    def log_of(self, path: str) -> int | None:
        """Return the descriptor of the access log at a path; None if no job has it."""
        jobs = (each for each in (self.now, self._before) if each is not None)
        found = (each.access_log_fd for each in jobs if each.settings.access_log == path)
        return next(found, None)

    def others_fds(self) -> set[int]:
        """Return the access log that only the job of before has, which no new worker needs."""
        if self._before is None or self._before.access_log_fd is None:
            return set()
        return {self._before.access_log_fd} - {self.now.access_log_fd}

    def close(self) -> None:
        """Close what the jobs own."""
        self.complete()
        for fd in (self.now.lifeline_fd, self.now.access_log_fd):
            if fd is not None:
                os.close(fd)

    def _release(self, *jobs: Job) -> None:
        """Close the access logs of jobs that are not used any more, unless another has them."""
        used = {each.access_log_fd for each in (self.now, self._before) if each is not None}
        for fd in {each.access_log_fd for each in jobs} - used:
            if fd is not None:
                os.close(fd)


def with_siblings(job: Job) -> Job:
    """Return the job with what its workers share; one worker alone needs no seat."""
    if job.settings.core["client_requests_per_s_max"]:
        _core.share_client_rates()
    seats = capacity.seats(job.settings.workers)
    return job if job.seats >= seats else replace(job, siblings=_core.Siblings(seats), seats=seats)


def with_count(job: Job, count: int) -> Job:
    """Return the job for so many workers."""
    return with_siblings(replace(job, settings=replace(job.settings, workers=count)))


def with_log(job: Job, opened: Mapping[str, int]) -> Job:
    """Return the job with the descriptor that its access log has now."""
    return replace(job, access_log_fd=opened.get(job.settings.access_log, job.access_log_fd))


def in_words(count: int) -> str:
    """Return a number of workers as text."""
    return f"{count} worker{'' if count == 1 else 's'}"
