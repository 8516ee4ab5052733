"""The file with the process id is nobody else's file."""

from __future__ import annotations

import os
from pathlib import Path

from bolide.server.process.pid_file import PidFile


def test_what_somebody_has_put_in_its_place_is_not_written_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / f"pid.{os.getpid()}").symlink_to(other)
    PidFile(str(tmp_path / "pid")).write()
    assert (other.read_text(), (tmp_path / "pid").read_text()) == ("precious", f"{os.getpid()}\n")
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["other", "pid"]


def test_only_its_owner_writes_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        PidFile(str(tmp_path / "pid")).write()
    finally:
        os.umask(before)
    assert (tmp_path / "pid").stat().st_mode & 0o777 == 0o644
