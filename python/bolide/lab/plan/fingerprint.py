"""Hashes of what a race runs besides the command lines, so that it is not resumed with another.

Records have the hashes by name (`Machine.parts`, `Contestant.parts`), and no contents or folders.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bolide.lab.folders import APPS, LABORATORY
from bolide.lab.plan import environments
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.user_application import UserApplication
from bolide.lab.record.schema import CORE_PART

DIGITS = 16
"""Hexadecimal digits that are kept of a SHA-256."""
SOURCES = (".py", ".lua")
BUILT = {"__pycache__", "node_modules", "target"}
"""Folders in those of applications that are no part of them."""


def of_race(application: UserApplication | None) -> dict[str, str]:
    """Hash what all contestants share: Bolide, the applications, and the user's own one."""
    package = LABORATORY.parent
    own = [path for path in package.rglob("*") if path.suffix in SOURCES]
    found = {"Bolide's Python files": _of_files(own, package)}
    core = find_spec("bolide._core")
    if core is not None and core.origin:
        found[CORE_PART] = _of_files([Path(core.origin)], Path(core.origin).parent)
    for path in sorted(APPS.rglob("*")):
        place = path.relative_to(APPS)
        if path.is_file() and not BUILT & {*place.parts}:
            found[f"{{apps}}/{place}"] = _of_files([path], APPS)
    if application is not None:
        folders = [str(each) for each in (application.folder, *application.import_folders)]
        found["the folder of --app"] = _of_text(json.dumps(folders))
        found["the application's files"] = _of_files(application.files, application.folder)
    return found


def of_contestant(contestant: Contestant) -> dict[str, str]:
    """Hash its files, its environment variables, its packages and what was built for it."""
    found = {name: _of_text(text) for name, text in contestant.files.items()}
    variables = dict(contestant.entry.environment)
    found["its variables"] = _of_text(json.dumps(variables, sort_keys=True))
    python = environments.python_of(contestant)
    installed = python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
    found["its packages"] = _of_text(json.dumps(sorted(path.name for path in installed)))
    if contestant.setup.go or contestant.setup.cargo:
        folder = environments.folder_of(contestant) / "bin"
        found["its program"] = _of_files(folder.glob("*"), folder)
    return found


def _of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _of_files(paths: Iterable[Path], folder: Path) -> str:
    """Hash files with their places relative to a folder, if they are below it."""
    every = []
    for path in sorted(paths):
        place = path.relative_to(folder) if path.is_relative_to(folder) else path
        try:
            state = path.stat()
            every.append([str(place), _of_file(path, state.st_mtime_ns, state.st_size)])
        except OSError:  # it was removed meanwhile, or is a broken link
            every.append([str(place), ""])
    return _of_text(json.dumps(every))


@cache
def _of_file(path: Path, changed_ns: int, size: int) -> str:
    """Hash a file; one that has not changed since is not read again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
