"""Which files count when they change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings

INCLUDED = ("*.py",)
CACHES = ("__pycache__", "node_modules", "site-packages")
"""Folders that are left out, as are hidden ones and virtual environments."""
TEMPORARY = (
    ".*",
    "#*#",
    "*~",
    "*.sw?",
    "*.py[cod]",
    "*.tmp",
    "*___jb_???___",
    "4913",
    "flycheck_*",
)
"""Files that editors write beside the one that is saved, and what Python compiles."""
ENVIRONMENT = "pyvenv.cfg"
"""The file by which a folder is a virtual environment (PEP 405)."""


@dataclass(frozen=True)
class Selection:
    """The folders to watch, and which files in them count."""

    folders: tuple[str, ...]
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    _included: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", [*INCLUDED, *self.include])

    @classmethod
    def of(cls, settings: Settings, target: str) -> Selection:
        """Return what the options say, for the application that `target` names.

        Raises:
            ConfigError: the current folder was removed.
        """
        try:
            folders = settings.reload_dir or (_folder_of(target),)
            real = dict.fromkeys(os.path.realpath(each) for each in folders)
        except FileNotFoundError:
            remedy = "change to that of the application"
            raise ConfigError(f"reload: the current folder was removed; {remedy}") from None
        return cls(tuple(real), settings.reload_include, settings.reload_exclude)

    def counts(self, path: str) -> bool:
        """Return whether a change of this file matters."""
        inner = self._inner(path)
        if inner is None or _is_in_environment(path, inner):
            return False
        if any(inner.name == each for each in self.include):
            return not _matches(inner, path, self.exclude)
        folders = inner.parts[:-1]
        if any(_has_no_source(each) for each in folders):
            return False
        if any(fnmatchcase(inner.name, each) for each in TEMPORARY):
            return False
        return _matches(inner, path, self._included) and not _matches(inner, path, self.exclude)

    def changed_since(self, unix_ns: int) -> set[str]:
        """Return the files that matter and were written, or put into their place, since then."""
        found: set[str] = set()
        for folder in self.folders:
            for place, folders, names in os.walk(folder):
                folders[:] = [each for each in folders if not _is_left_out(place, each)]
                paths = (os.path.join(place, name) for name in names)
                found |= {each for each in paths if _is_since(each, unix_ns) and self.counts(each)}
        return found

    def _inner(self, path: str) -> PurePath | None:
        """Return the path inside the innermost folder that is watched."""
        found = [PurePath(path).relative_to(each) for each in self.folders if _is_in(path, each)]
        return min(found, key=lambda each: len(each.parts), default=None)


def _has_no_source(folder: str) -> bool:
    return folder.startswith(".") or folder in CACHES


def _is_left_out(place: str, folder: str) -> bool:
    return _has_no_source(folder) or _is_environment(os.path.join(place, folder))


def _is_since(path: str, unix_ns: int) -> bool:
    try:
        return os.stat(path).st_ctime_ns >= unix_ns
    except OSError:
        return False


def _matches(inner: PurePath, path: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern is for this file, its name, the end of its path, or a folder."""
    for pattern in patterns:
        if "/" in pattern.rstrip("/"):
            if inner.match(pattern):
                return True
        elif any(fnmatchcase(part, pattern.rstrip("/")) for part in inner.parts):
            return True
        if os.path.isdir(pattern) and _is_in(path, os.path.realpath(pattern)):
            return True
    return False


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_in_environment(path: str, inner: PurePath) -> bool:
    """Return whether one of the folders in the watched one is a virtual environment."""
    parents = list(Path(path).parents)[: len(inner.parts) - 1]
    return any(_is_environment(str(each)) for each in parents)


@cache
def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ENVIRONMENT))


def _folder_of(target: str) -> str:
    """Return the current folder, or that of a target's file which is outside of it."""
    here = os.getcwd()
    place = target.partition(":")[0]
    if not (place.endswith(".py") or os.sep in place):
        return here
    folder = os.path.dirname(os.path.realpath(place))
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    is_inside = folder == os.path.realpath(here) or _is_in(folder, os.path.realpath(here))
    return here if is_inside else folder
