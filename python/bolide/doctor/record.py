"""The record of what `--tune` has changed: written before the first change, locked while in use.

It is in /run, which is empty after a boot, when the kernel's settings are back at their defaults.
It is created by a link, which fails if the file exists, so that only one of two processes can tune.
A process that uses the record holds its lock. The kernel releases it when the process ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import msgspec

from bolide.doctor.profile import Change
from bolide.errors import ConfigError

PLACE = "run/bolide/tuned.json"
SCHEMA = 1
RESTORE = "run `bolide doctor --restore`"


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    schema: int
    profile: str
    changes: list[Change]


class Record:
    """An open, locked record."""

    def __init__(self, path: Path, fd: int, content: Content) -> None:
        self.path = path
        self.content = content
        self._fd = fd

    def remove(self) -> None:
        """Remove the record, and release the lock."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release the lock, and leave the file for --restore."""
        os.close(self._fd)


def refuse_second(root: Path) -> None:
    """Refuse to tune if there is a record.

    Raises:
        ConfigError: there is one; the message says what to do.
    """
    path = root / PLACE
    if path.exists():
        raise ConfigError(f"this machine is already tuned ({path}); {RESTORE} first")


def create(root: Path, profile: str, changes: list[Change]) -> Record:
    """Write a record, and sync it to the disk.

    Raises:
        ConfigError: there is one already, or it cannot be written.
    """
    path = root / PLACE
    content = Content(SCHEMA, profile, changes)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd, made = tempfile.mkstemp(dir=path.parent)
    except OSError as error:
        raise ConfigError(_cannot("write", path, error)) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        os.fsync(fd)
        os.link(made, path)
        _sync_folder(path.parent)
    except FileExistsError:
        os.close(fd)
        refuse_second(root)
        raise ConfigError("another --tune has just ended; run it again") from None
    except OSError as error:
        os.close(fd)
        raise ConfigError(_cannot("write", path, error)) from None
    finally:
        os.unlink(made)
    return Record(path, fd, content)


def take(root: Path) -> Record | None:
    """Open and lock the record; None if nothing is recorded.

    Raises:
        ConfigError: a running command uses it, or it cannot be read.
    """
    path = root / PLACE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(_cannot("read", path, error)) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        state = os.fstat(fd)
        if not state.st_nlink:  # its process has restored the settings and removed it
            os.close(fd)
            return None
        content = msgspec.json.decode(os.pread(fd, state.st_size, 0), type=Content)
        if content.schema != SCHEMA:
            raise ConfigError(
                f"{path} was written by another version of bolide; restore with that one"
            )
    except BlockingIOError:
        os.close(fd)
        raise ConfigError(
            f"a command is still running under {path}; the settings are restored when it ends"
        ) from None
    except msgspec.MsgspecError as error:
        os.close(fd)
        raise ConfigError(f"{path} is not a record of bolide doctor: {error}") from None
    except BaseException:
        os.close(fd)
        raise
    return Record(path, fd, content)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _cannot(verb: str, path: Path, error: OSError) -> str:
    return f"cannot {verb} {path}: {error.strerror}; --tune and --restore need root (sudo)"
