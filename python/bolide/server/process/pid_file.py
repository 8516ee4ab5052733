"""A file with the supervisor's process id, for service managers and scripts that need one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from bolide.errors import ConfigError
from bolide.server.kernel import command_line

MODE = 0o644
"""Everybody may read it, and only its owner may write it, whatever the umask allows."""
PID_FILE_BYTES_MAX = 20
"""A longer file is no pid file."""


class PidFile:
    """The file, which is written when the server starts and removed when it ends."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute() if path else None

    def create(self) -> None:
        """Write it at the start, unless it is that of another server.

        Raises:
            ConfigError: as `write`, or another server has written it, and runs.
        """
        if self._path is not None and (pid := _pid_in(self._path)) and not self._is_ours():
            found = command_line(int(pid))
            # A script that calls bolide.run is known by being this process's too.
            if b"bolide" in found or (found and found == command_line(os.getpid())):
                text = f"{self._path} is that of a server that runs (pid {int(pid)})"
                remedy = "name another file, stop that one, or remove the file if it is left over"
                raise ConfigError(f"pid_file: {text}: {remedy}")
        self.write()

    def write(self) -> None:
        """Write the id of this process, in place of another's.

        Raises:
            ConfigError: the file cannot be written, or there is something else in its place.
        """
        if self._path is None:
            return
        if _pid_in(self._path) is None:
            text = f"{self._path} is no pid file and is not overwritten: name another file"
            raise ConfigError(f"pid_file: {text}")
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
        return self._path is not None and _pid_in(self._path) == b"%d" % os.getpid()


def _pid_in(path: Path) -> bytes | None:
    """Return the process id in a file, b"" if there is no file; None if it is no pid file."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > PID_FILE_BYTES_MAX:
            return None
        content = path.read_bytes().strip()
    except OSError:  # there is none, or it cannot be written either
        return b""
    return content if content.isdigit() or not content else None
