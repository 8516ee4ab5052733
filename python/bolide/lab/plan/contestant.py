"""The contestants: servers with an application, each file in `contestants/` one server's.

A file says how the server is obtained ([setup]), which files it needs beside itself ([files]) and
how each of its contestants is started. Texts hold placeholders such as {port}; see PLACEHOLDERS.
This module reads and checks; `environments.py` installs, `race.py` starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from bolide.errors import ConfigError
from bolide.lab.folders import CONTESTANTS

PLACEHOLDERS = {
    "python": "interpreter of the contestant's environment",
    "bin": "folder of its programs",
    "host": "address to listen on",
    "port": "port to listen on",
    "app": "application as module:attribute",
    "apps": "folder of the laboratory's own applications",
    "folder": "an empty folder of this start, in which [files] are",
    "content": "what each answer must hold",
    "content_bytes": "how many bytes that is",
    "target": "path that is asked for",
    "depth": "requests that the workload has under way on each connection",
    "connections": "connections of the workload",
    "build": "folder with what was built from source",
    "self": "interpreter that runs Bolide",
    "site": "folder of the distributions in the contestant's environment",
}
"""What a text in braces stands for in `command`, `environment` and [files]."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a server is obtained; what is empty is not needed."""

    requirements: tuple[str, ...] = ()
    """Pinned distributions, installed into a virtual environment of its own."""
    install: tuple[tuple[str, ...], ...] = ()
    """Arguments of pip, one run each, in place of one run with the requirements."""
    distribution: str = ""
    """Whose version is the contestant's: of the environment, or what go and cargo built with."""
    interpreter: str = ""
    """Version of CPython, such as 3.7; empty: the one that runs Bolide."""
    programs: tuple[str, ...] = ()
    """Programs that must be on the PATH."""
    paths: tuple[str, ...] = ()
    """Files that must exist."""
    apt: tuple[str, ...] = ()
    """Debian packages which hold programs, paths and headers."""
    version: tuple[str, ...] = ()
    """Command that tells the version."""
    probe: tuple[str, ...] = ()
    """Command that must succeed."""
    go: str = ""
    """Folder in apps/ with a Go module."""
    cargo: str = ""
    """Folder in apps/ with a Rust package."""
    missing: str = ""
    """What to say where it cannot be had, and what would mend it."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One contestant of a file."""

    name: str
    title: str
    interface: str
    command: tuple[str, ...]
    app: str = ""
    """module:attribute in apps/ ("" where the command needs none)."""
    role: Literal["server", "ceiling"] = "server"
    requirements: tuple[str, ...] = ()
    """Beside those of the file: a framework."""
    environment: Mapping[str, str] = {}
    takes_app: Literal["", "asgi", "wsgi", "native"] = ""
    """A user's application of this interface can take the place of `app`."""
    is_persistent: bool = True
    """Answers several requests on one connection."""
    closes: bool = True
    """Survives a request that asks it to close the connection; else it meets no such workload."""
    pipelines: bool = True
    """Answers requests that were sent before the last answer."""
    connections_max: int | None = None
    """It answers no more persistent connections at a time; workloads with more are left out."""
    is_canned: bool = False
    """Answers the same whatever is asked, so neither unknown paths nor split requests are tried."""
    target: str = ""
    """Where it answers, if not at the workload's."""
    remarks: tuple[str, ...] = ()
    """What one must know to read its figures."""


class ServerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file in `contestants/` holds."""

    title: str
    language: str
    setup: Setup = Setup()
    files: Mapping[str, str] = {}
    contestant: tuple[Entry, ...]


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with its file's part, ready to be set up and started."""

    key: str
    """Name of its environment."""
    language: str
    setup: Setup
    files: Mapping[str, str]
    entry: Entry

    @property
    def name(self) -> str:
        """What the command line and the results call it."""
        return self.entry.name


def fill(text: str, values: Mapping[str, str], *, is_strict: bool = True) -> str:
    """Put values in the place of {placeholders}; other braces stay where not `is_strict`.

    Raises:
        ConfigError: a placeholder that there is none of.
    """

    def one(match: re.Match[str]) -> str:
        if match[1] in values:
            return values[match[1]]
        if not is_strict:
            return match[0]
        raise ConfigError(f"no placeholder {match[0]}; there are: {', '.join(sorted(values))}")

    return _PLACEHOLDER.sub(one, text)


def read_file(path: Path) -> list[Contestant]:
    """Read one server's file.

    Raises:
        ConfigError: it cannot be read, or says what no contestant has.
    """
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=ServerFile)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"{path.name}: {error}") from None
    contestants = []
    for entry in found.contestant:
        key = path.stem
        setup = found.setup
        if entry.requirements:
            key = entry.name
            both = (*setup.requirements, *entry.requirements)
            setup = msgspec.structs.replace(setup, requirements=both)
        for text in (*entry.command, *entry.environment.values()):
            fill(text, PLACEHOLDERS)
        contestants.append(
            Contestant(
                key=key, language=found.language, setup=setup, files=found.files, entry=entry
            )
        )
    return contestants


def read_all(folders: Iterable[Path] = (CONTESTANTS,)) -> dict[str, Contestant]:
    """Read every contestant, by name.

    Raises:
        ConfigError: a file is wrong, or two contestants have one name.
    """
    found: dict[str, Contestant] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            for contestant in read_file(path):
                if contestant.name in found:
                    raise ConfigError(f"{path.name}: there is a {contestant.name!r} already")
                found[contestant.name] = contestant
    return found


@cache
def own() -> Mapping[str, Contestant]:
    """Give the contestants that come with Bolide."""
    return read_all()


def fits(name: str, wanted: str) -> bool:
    """Tell whether a name is the wanted one, or begins as one that ends in * does."""
    return name == wanted or (wanted.endswith("*") and name.startswith(wanted[:-1]))


def chosen(names: Iterable[str], among: Mapping[str, Contestant]) -> list[Contestant]:
    """Give the contestants of these names; a name with * at its end is a beginning.

    Raises:
        ConfigError: nothing has that name.
    """
    found: dict[str, Contestant] = {}
    for name in names:
        fitting = [key for key in among if fits(key, name)]
        if not fitting:
            near = ", ".join(sorted(key for key in among if name[:3] in key)[:6])
            raise ConfigError(
                f"no contestant {name!r}{f'; there are {near}' if near else ''} (bolide race list)"
            )
        found.update((key, among[key]) for key in fitting)
    return list(found.values())
