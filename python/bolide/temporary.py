"""Temporary folders that end with their use; those of processes that were killed are removed later.

A folder is locked for as long as its process is there, so that others know that it is used.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def new(prefix: str) -> Iterator[Path]:
    """Make a folder, which is locked for as long as this process uses it."""
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
            _locked(Path(name)) as is_ours,
        ):
            if is_ours:  # else another process takes it for one that was left, and removes it
                yield Path(name)
                return


def remove_left(prefix: str) -> None:
    """Remove this user's folders whose process is gone: nobody locks them."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
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
            # Another process may have removed it before it was locked here.
            is_locked = found.st_uid == os.geteuid() and found.st_nlink > 0
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(folder)
