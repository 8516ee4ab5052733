"""Temporary folders: removed at their end, or by the next process of the same kind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bolide import temporary

PREFIX = "bolide-test-"
HOLDER = """\
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from bolide import temporary
with temporary.new(sys.argv[2]) as path:
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_ends_with_its_use(place: Path) -> None:
    with temporary.new(PREFIX) as found:
        assert found.parent == place and found.name.startswith(PREFIX)
        (found / "log").write_text("x")
        temporary.remove_left(PREFIX)
        assert (found / "log").exists()
    assert not [*place.iterdir()]


def test_the_folder_of_a_killed_process_is_removed_by_the_next(place: Path) -> None:
    (place / f"{PREFIX}file").write_text("not a folder")
    (place / "others").mkdir()
    (place / f"{PREFIX}link").symlink_to(place / "others")
    kept = {*place.iterdir()}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place), PREFIX],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        (left / "a").mkdir()
        temporary.remove_left(PREFIX)
        assert left.is_dir()
        holder.kill()
    assert left.is_dir()
    temporary.remove_left(PREFIX)
    assert {*place.iterdir()} == kept
