"""The folders of trials: removed at their end, or by the next race."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bolide.lab.record.redaction import TRIAL_PREFIX
from bolide.lab.trial import folder

HOLDER = """\
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from bolide.lab.trial import folder
with folder.new() as path:
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_ends_with_its_trial(place: Path) -> None:
    with folder.new() as found:
        assert found.parent == place and found.name.startswith(TRIAL_PREFIX)
        (found / "log").write_text("x")
        folder.remove_left()
        assert (found / "log").exists()
    assert not [*place.iterdir()]


def test_the_folder_of_a_killed_race_is_removed_by_the_next(place: Path) -> None:
    (place / f"{TRIAL_PREFIX}file").write_text("not a folder")
    (place / "others").mkdir()
    (place / f"{TRIAL_PREFIX}link").symlink_to(place / "others")
    kept = {*place.iterdir()}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as race:
        assert race.stdout is not None
        left = Path(race.stdout.readline().strip())
        (left / "a").mkdir()
        folder.remove_left()
        assert left.is_dir()
        race.kill()
    assert left.is_dir()
    folder.remove_left()
    assert {*place.iterdir()} == kept
