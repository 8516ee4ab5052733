"""What the process that watches files does besides."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from bolide.server.development.watcher import forget_compiled


def test_what_was_compiled_of_a_changed_file_is_removed(tmp_path: Path) -> None:
    compiled = [Path(importlib.util.cache_from_source(str(tmp_path / f"{n}.py"))) for n in "ab"]
    compiled[0].parent.mkdir()
    for each in compiled:
        each.touch()
    forget_compiled([str(tmp_path / "a.py"), str(tmp_path / "c.py"), str(tmp_path / "b.html")])
    assert [each.exists() for each in compiled] == [False, True]
