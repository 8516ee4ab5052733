"""The file with the process id is nobody else's file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bolide
from bolide.errors import ConfigError
from bolide.server.process.pid_file import PidFile
from support.server import APPLICATIONS, Start, command

SCRIPT = """
import signal, sys
sys.path.insert(0, {pythonpath!r})
from bolide.server.process.pid_file import PidFile
PidFile("pid").create()
print("written", flush=True)
signal.pause()
"""


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


def test_the_file_of_the_same_script_that_runs_is_refused(tmp_path: Path) -> None:
    """Whatever it is called: its command line need not have this package's name."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(pythonpath=str(Path(bolide.__file__).parents[1])))
    words = ["python", script.name]
    with subprocess.Popen(
        words, executable=sys.executable, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "written\n"
            again = subprocess.run(
                words,
                executable=sys.executable,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=20,
            )
        finally:
            first.kill()
    text = (
        f"is that of a server that runs (pid {first.pid}): name another file, stop that one, or "
        "remove the file if it is left over\n"
    )
    assert (again.stdout, again.returncode) == ("", 1)
    assert again.stderr.endswith(text)
    assert (tmp_path / "pid").read_text() == f"{first.pid}\n"


def test_the_file_of_a_server_that_runs_is_refused(start: Start, tmp_path: Path) -> None:
    server = start("basic.py", "--pid-file", str(tmp_path / "pid"))
    again = ("serve", "basic.py", "--port", "0", "--pid-file", f"{tmp_path}/pid")
    code, _, errors = command(*again, cwd=APPLICATIONS)
    assert (code, errors.count("\n")) == (2, 1)
    assert f"is that of a server that runs (pid {server.pid}): name another file" in errors
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
