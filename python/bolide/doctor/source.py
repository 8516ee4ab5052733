"""Reads the kernel's files below a root folder; tests use another root."""

from __future__ import annotations

import os
from pathlib import Path


class Unreadable(Exception):  # noqa: N818 - describes a value
    """A value cannot be read; the text is the reason, for users."""

    def __init__(self, reason: str, *, is_absent: bool = False) -> None:
        super().__init__(reason)
        self.is_absent = is_absent
        """Whether the file does not exist, as opposed to one that cannot be read."""


class Source:
    """The files of one machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def is_real(self) -> bool:
        """Whether these are the files of the machine that this process runs on."""
        return self.root == Path("/")

    def text(self, path: str) -> str:
        """Read a file; `path` is relative to the root.

        Raises:
            Unreadable: it does not exist, or cannot be read.
        """
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            reason = error.strerror or str(error)
            raise Unreadable(f"/{path}: {reason}", is_absent=is_absent) from None

    def text_or(self, path: str, default: str) -> str:
        """Read a file; return the default if it cannot be read."""
        try:
            return self.text(path)
        except Unreadable:
            return default

    def names(self, path: str) -> list[str]:
        """List a folder, sorted; empty if it cannot be read."""
        try:
            return sorted(os.listdir(self.root / path))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """Read the target of a symbolic link; empty if it cannot be read."""
        try:
            return os.readlink(self.root / path)
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return (self.root / path).exists()
