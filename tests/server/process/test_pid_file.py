"""The file with the process id is nobody else's file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.server.process.pid_file import PidFile
from support.server import APPLICATIONS, Start, command


def test_what_somebody_has_put_in_its_place_is_not_written_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / f"pid.{os.getpid()}").symlink_to(other)
    PidFile(str(tmp_path / "pid")).write()
    assert (other.read_text(), (tmp_path / "pid").read_text()) == ("precious", f"{os.getpid()}\n")
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["other", "pid"]


def test_what_is_no_pid_file_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    for make in (
        lambda: path.write_text("precious"),
        lambda: path.write_text("1" * 21),
        lambda: path.symlink_to("elsewhere"),
        lambda: os.mkfifo(path),
    ):
        make()
        before = path.lstat()
        with pytest.raises(ConfigError, match="is no pid file and is not overwritten: name anoth"):
            PidFile(str(path)).write()
        PidFile(str(path)).remove()
        assert path.lstat() == before
        path.unlink()


@pytest.mark.parametrize("left", ["", "4711\n", " 4711"])
def test_a_pid_file_that_a_server_has_left_is_replaced(tmp_path: Path, left: str) -> None:
    path = tmp_path / "pid"
    path.write_text(left)
    PidFile(str(path)).write()
    assert path.read_text() == f"{os.getpid()}\n"
    PidFile(str(path)).remove()
    assert not path.exists()


def test_only_its_owner_writes_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        PidFile(str(tmp_path / "pid")).write()
    finally:
        os.umask(before)
    assert (tmp_path / "pid").stat().st_mode & 0o777 == 0o644


def test_the_file_of_a_server_that_runs_is_refused(start: Start, tmp_path: Path) -> None:
    server = start("basic.py", "--pid-file", str(tmp_path / "pid"))
    again = ("serve", "basic.py", "--port", "0", "--pid-file", f"{tmp_path}/pid")
    code, _, errors = command(*again, cwd=APPLICATIONS)
    assert (code, errors.count("\n")) == (2, 1)
    assert f"is that of a server that runs (pid {server.pid}): name another file" in errors
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
