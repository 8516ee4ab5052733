"""The contestants: servers with an application. Each file in `contestants/` describes one server.

A file says how the server is installed ([setup]), which files it needs ([files]) and how each of
its contestants is started. Texts have placeholders such as {port}; see PLACEHOLDERS. This module
reads and checks the files, `environments.py` installs contestants, `bolide.lab.trial.launch` starts
them.
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
from bolide.lab.matching import fits
from bolide.lab.record.schema import Loop

PLACEHOLDERS = {
    "python": "interpreter of the contestant's environment",
    "bin": "folder of its programs",
    "host": "address to listen on",
    "port": "port to listen on",
    "second_port": "another free port",
    "app": "application as module:attribute",
    "apps": "folder of the laboratory's own applications",
    "folder": "a new folder that contains only [files]",
    "content": "content of each response",
    "content_bytes": "its length in bytes",
    "target": "request target",
    "depth": "pipelined requests on each connection",
    "connections": "connections of the workload",
    "connections_each": "connections of the workload for each of the contestant's processes",
    "build": "folder of the programs that were built from source",
    "certificate": "file with the certificate of the race",
    "key": "file with its key: the certificate's with .key after it",
    "http_major": "major version of HTTP that the workload uses: 1 or 2",
    "self": "interpreter that runs Bolide",
    "site": "folder of the distributions in the contestant's environment",
}
"""What a placeholder means in `command`, `environment` and [files]."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a server is installed; empty fields are not needed."""

    requirements: tuple[str, ...] = ()
    """Pinned distributions, installed into a virtual environment of its own."""
    install: tuple[tuple[str, ...], ...] = ()
    """Arguments of pip, one run each, instead of one run with the requirements."""
    variables: Mapping[str, str] = {}
    """Environment variables of pip, such as flags of the compiler."""
    distribution: str = ""
    """Distribution whose version is shown: installed, or in the lock file of go or cargo."""
    interpreter: str = ""
    """Version of CPython, such as 3.7; empty means the one that runs Bolide."""
    programs: tuple[str, ...] = ()
    """Programs that must be on the PATH."""
    paths: tuple[str, ...] = ()
    """Files that must exist."""
    apt: tuple[str, ...] = ()
    """Debian packages with the programs, paths and headers."""
    version: tuple[str, ...] = ()
    """Command that prints the version."""
    probe: tuple[str, ...] = ()
    """Command that must succeed."""
    go: str = ""
    """Folder in apps/ with a Go module."""
    cargo: str = ""
    """Folder in apps/ with a Rust package."""
    npm: str = ""
    """Folder in apps/ with a Node package and its lock file."""
    missing: str = ""
    """The message if it cannot be installed, with the fix."""
    how: tuple[str, ...] = ()
    """Commands that install what no package of the distribution has."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One contestant of a file."""

    name: str
    title: str
    interface: str
    command: tuple[str, ...]
    app: str = ""
    """module:attribute in apps/ ("" if the command needs none)."""
    role: Literal["server", "ceiling"] = "server"
    uses_tls: bool = False
    """Serves TLS, and nothing without it."""
    serves_http2: bool = False
    serves_messages: bool = False
    """Serves WebSockets at /echo and /broadcast."""
    compresses: bool = True
    """Agrees to permessage-deflate."""
    requirements: tuple[str, ...] = ()
    """Further requirements, such as a framework."""
    environment: Mapping[str, str] = {}
    takes_app: Literal["", "asgi", "wsgi", "native"] = ""
    """The interface of user applications that can be served instead of `app`."""
    is_persistent: bool = True
    """Serves several requests on one connection."""
    closes: bool = True
    """Survives a request with Connection: close; if not, it gets no such workload."""
    pipelines: bool = True
    """Serves requests that were sent before the previous response."""
    connections_max: int | None = None
    """Maximum number of persistent connections at a time; workloads with more are left out."""
    processes: int = 1
    """Number of processes among which {connections_each} divides the connections, rounded up."""
    is_busy_when_idle: bool = False
    """Takes processor time without a load, so it is stopped while others have their turns."""
    is_canned: bool = False
    """Sends the same response to any request, so unknown paths and split requests are not tried."""
    target: str = ""
    """The target that it serves, if it differs from the workload's."""
    remarks: tuple[str, ...] = ()
    """What to know about its figures."""
    program: str = ""
    """What runs on different event loops: contestants of one program differ only in the loop."""
    loop: Loop = ""
    """The event loop, if `program` is given."""


class ServerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a file in `contestants/`."""

    title: str
    language: str
    setup: Setup = Setup()
    files: Mapping[str, str] = {}
    contestant: tuple[Entry, ...]


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with the setup and files of its server."""

    key: str
    """Name of its environment."""
    language: str
    setup: Setup
    files: Mapping[str, str]
    entry: Entry

    @property
    def name(self) -> str:
        """Its name on the command line and in the results."""
        return self.entry.name


def fill(text: str, values: Mapping[str, str], *, is_strict: bool = True) -> str:
    """Replace {placeholders} by their values; other names in braces are kept if not `is_strict`.

    Raises:
        ConfigError: a placeholder is unknown.
    """

    def one(match: re.Match[str]) -> str:
        if match[1] in values:
            return values[match[1]]
        if not is_strict:
            return match[0]
        raise ConfigError(f"unknown placeholder {match[0]}; there are: {', '.join(sorted(values))}")

    return _PLACEHOLDER.sub(one, text)


def read_file(path: Path) -> list[Contestant]:
    """Read one server's file.

    Raises:
        ConfigError: it cannot be read, or has an unknown field.
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
        ConfigError: a file is invalid, or two contestants have the same name.
    """
    found: dict[str, Contestant] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            for contestant in read_file(path):
                if contestant.name in found:
                    raise ConfigError(f"{path.name}: contestant {contestant.name!r} exists already")
                found[contestant.name] = contestant
    return found


@cache
def own() -> Mapping[str, Contestant]:
    """Return the contestants that come with Bolide."""
    return read_all()


def chosen(names: Iterable[str], among: Mapping[str, Contestant]) -> list[Contestant]:
    """Return the contestants of these names, each NAME or PREFIX*.

    Raises:
        ConfigError: no contestant matches one of them.
    """
    found: dict[str, Contestant] = {}
    for name in names:
        matching = [key for key in among if fits(key, name)]
        if not matching:
            near = ", ".join(sorted(key for key in among if name[:3] in key)[:6])
            raise ConfigError(
                f"no contestant {name!r}{f'; there are {near}' if near else ''} (bolide race list)"
            )
        found.update((key, among[key]) for key in matching)
    return list(found.values())
