"""The folder of a trial, which ends with it; those of races that were killed are removed later."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bolide.lab.record.redaction import TRIAL_PREFIX


@contextmanager
def new() -> Iterator[Path]:
    """Make a folder, which is locked for as long as this process uses it."""
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=TRIAL_PREFIX, ignore_cleanup_errors=True) as name,
            _locked(Path(name)) as is_ours,
        ):
            if is_ours:  # else another race takes it for one that was left, and removes it
                yield Path(name)
                return


def remove_left() -> None:
    """Remove the folders of this user's races whose process is gone: nobody locks them."""
    for path in Path(tempfile.gettempdir()).glob(f"{TRIAL_PREFIX}*"):
        with suppress(OSError), _locked(path) as is_free:
            if is_free:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a folder of this user's; yield whether that was possible."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(folder)
            # Another race may have removed it before it was locked here.
            is_locked = found.st_uid == os.geteuid() and found.st_nlink > 0
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(folder)
