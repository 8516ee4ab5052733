"""A file with the supervisor's process id, for service managers and scripts that need one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bolide.errors import ConfigError

MODE = 0o644
"""Everybody may read it, and only its owner may write it, whatever the umask allows."""


class PidFile:
    """The file, which is written when the server starts and removed when it ends."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute() if path else None

    def write(self) -> None:
        """Write the id of this process, in place of another's.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self._path is None:
            return
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            part.unlink(missing_ok=True)
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
            with open(fd, "w") as file:
                file.write(f"{os.getpid()}\n")
            part.replace(self._path)  # nobody reads a part of it
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            text = f"cannot write the pid file {self._path}: {error.strerror}"
            raise ConfigError(text) from None

    def keep(self) -> None:
        """Write it again, if another process has written its own id.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self._path is not None and not self._is_ours():
            self.write()

    def remove(self) -> None:
        """Remove it, unless another process has written its own id meanwhile."""
        if self._path is not None and self._is_ours():
            with suppress(OSError):
                self._path.unlink()

    def _is_ours(self) -> bool:
        try:
            return self._path is not None and self._path.read_text() == f"{os.getpid()}\n"
        except (OSError, ValueError):
            return False
