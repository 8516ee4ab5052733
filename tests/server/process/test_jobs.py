"""A reload that fails leaves the job of before, and each descriptor is closed once."""

from __future__ import annotations

import os
import re
import selectors
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError, Error, StartupError
from bolide.server import child
from bolide.server.process.access_log import open_access_log
from bolide.server.process.jobs import Jobs, with_siblings
from bolide.server.worker import Job
from bolide.server.workers import Workers


def job(log: Path, workers: int = 1) -> Job:
    settings = resolve({"access_log": str(log), "workers": workers}, environ={})
    fd = open_access_log(str(log))
    return with_siblings(Job("app", settings, "asyncio", [], fd, os.open(__file__, os.O_RDONLY)))


def after(before: Job, log: Path) -> Job:
    """Return what a reload makes of it: another file, opened again."""
    settings = replace(before.settings, access_log=str(log))
    return replace(before, settings=settings, access_log_fd=open_access_log(str(log)))


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    before = files()
    found = Jobs(job(tmp_path / "a"))
    yield found
    found.close()
    assert files() == before


def files() -> list[str]:
    """Return the files that this process has opened."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sorted(os.readlink(each) for each in links if os.path.isfile(each))


def is_open(fd: int | None, path: Path) -> bool:
    return fd is not None and os.path.samestat(os.fstat(fd), path.stat())


def test_a_reload_that_fails_leaves_the_job_of_before(jobs: Jobs, tmp_path: Path) -> None:
    first = jobs.now
    jobs.begin(after(first, tmp_path / "b"))
    jobs.begin(after(first, tmp_path / "c"))
    assert is_open(jobs.now.access_log_fd, tmp_path / "c")
    jobs.undo()
    assert jobs.now is first and is_open(first.access_log_fd, tmp_path / "a")


def test_one_that_succeeds_closes_the_file_of_before(jobs: Jobs, tmp_path: Path) -> None:
    first = jobs.now
    jobs.begin(after(first, tmp_path / "b"))
    jobs.complete()
    assert first.access_log_fd is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first.access_log_fd)
    jobs.undo()
    assert is_open(jobs.now.access_log_fd, tmp_path / "b")


def test_logs_of_both_jobs_are_opened_again(jobs: Jobs, tmp_path: Path) -> None:
    jobs.begin(after(jobs.now, tmp_path / "b"))
    for name in "ab":
        (tmp_path / name).rename(tmp_path / f"{name}.1")
    opened = jobs.reopen_logs()
    assert {path: is_open(fd, Path(path)) for path, fd in opened.items()} == {
        str(tmp_path / "a"): True,
        str(tmp_path / "b"): True,
    }
    assert is_open(jobs.now.access_log_fd, tmp_path / "b")
    jobs.undo()
    assert is_open(jobs.now.access_log_fd, tmp_path / "a")


def test_only_the_log_of_the_job_before_is_closed_in_workers(jobs: Jobs, tmp_path: Path) -> None:
    first = jobs.now
    assert jobs.others_fds() == set()
    jobs.begin(after(first, tmp_path / "a"))
    assert jobs.others_fds() == {first.access_log_fd}
    jobs.reopen_logs()  # both have the file at this path now
    assert jobs.others_fds() == set()
    jobs.complete()
    assert jobs.others_fds() == set()


def test_a_log_that_cannot_be_opened_changes_none(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    jobs = Jobs(job(folder / "a"))
    first = jobs.now
    jobs.begin(after(first, tmp_path / "b"))
    second = jobs.now
    folder.rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="cannot write the access log"):
        jobs.reopen_logs()
    assert jobs.now is second and is_open(second.access_log_fd, tmp_path / "b")
    jobs.undo()
    assert jobs.now is first and is_open(first.access_log_fd, tmp_path / "moved/a")
    jobs.close()


def test_more_workers_are_kept_after_a_reload_that_fails(jobs: Jobs, tmp_path: Path) -> None:
    assert not jobs.has_seats(2)
    jobs.begin(after(jobs.now, tmp_path / "b"))
    jobs.resize(2)
    assert jobs.has_seats(2) and jobs.now.settings.workers == 2
    assert is_open(jobs.now.access_log_fd, tmp_path / "b")
    jobs.undo()
    assert jobs.has_seats(2) and jobs.now.settings.workers == 2
    assert is_open(jobs.now.access_log_fd, tmp_path / "a")


def test_workers_that_do_not_start_are_forgotten(jobs: Jobs) -> None:
    first = jobs.now
    jobs.resize(2)
    assert jobs.now.access_log_fd == first.access_log_fd
    jobs.reopen_logs()
    jobs.undo()
    assert (jobs.now.settings.workers, jobs.now.siblings) == (1, None)


def test_a_number_of_workers_that_is_not_possible_changes_nothing(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.begin(after(jobs.now, tmp_path / "b"))
    now, made = jobs.now, []

    def siblings(seats: int) -> object:
        if made:
            raise OSError(24, "Too many open files")
        made.append(seats)
        return object()

    monkeypatch.setattr("bolide._core.Siblings", siblings)
    with pytest.raises(OSError, match="Too many open files"):
        jobs.resize(3)
    assert jobs.now is now


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError(), r"MemoryError\(\)"),
        (OSError(24, "Too many open files"), r"Too many open files; raise the limit of open .*"),
        (OSError("of the core"), r"OSError\('of the core'\)"),
    ],
)
def test_a_worker_for_which_there_is_no_room_is_a_failed_start(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    def start(*_: object) -> child.Child:
        raise error

    monkeypatch.setattr(child, "start", start)
    failures: list[Error] = []
    workers = Workers(
        jobs,
        selectors.PollSelector(),
        (),
        started=lambda _: None,
        reloaded=lambda _: None,
        failed=failures.append,
    )
    workers.start(tuple)
    (failure,) = failures
    assert isinstance(failure, StartupError)
    assert re.fullmatch(f"worker 1 cannot start: {why}", str(failure))
