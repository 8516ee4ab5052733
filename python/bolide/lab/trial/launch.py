"""Starts a contestant: its command, files and variables, with placeholders replaced."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bolide.lab.folders import APPS, USER_PACKAGES
from bolide.lab.plan import environments
from bolide.lab.plan.contestant import Contestant, fill
from bolide.lab.plan.user_application import UserApplication
from bolide.lab.record.schema import FILE_BYTE, Workload
from bolide.lab.trial.process import Process, free_port
from bolide.lab.trial.secure import CERTIFICATE, KEY, Pair

GUNICORN_FILE = "gunicorn.conf.py"
LARGE_FILE = "large"
"""The file of a workload with `file_bytes`."""


@dataclass(frozen=True)
class Place:
    """The folder, address and processors of one start."""

    folder: Path
    address: tuple[str, int]
    cpus: tuple[int, ...]
    pair: Pair | None = None
    """What the server presents, if the workload uses TLS."""


def command(contestant: Contestant, values: Mapping[str, str]) -> list[str]:
    """Return its command line, with the full path of its program.

    Raises:
        ConfigError: it has an unknown placeholder.
    """
    words = [fill(word, values) for word in contestant.entry.command]
    if "/" not in words[0]:
        words[0] = environments.find_program(words[0]) or words[0]
    return words


def values(
    contestant: Contestant, workload: Workload, place: Place, application: UserApplication | None
) -> dict[str, str]:
    """Return the values of the placeholders."""
    python = environments.python_of(contestant)
    content = workload.content or ""
    return {
        "python": str(python),
        "bin": str(python.parent),
        "host": place.address[0],
        "port": str(place.address[1]),
        "second_port": str(_another_port(place.address[1])),
        "app": application.app if application else _app(contestant, workload),
        "apps": str(APPS),
        "folder": str(place.folder),
        "content": content,
        "content_bytes": str(len(content.encode())),
        "target": contestant.entry.target or workload.target,
        "depth": str(workload.pipeline_depth),
        "connections": str(workload.connections),
        "connections_each": str(-(-workload.connections // contestant.entry.processes)),
        "self": sys.executable,
        "site": str(next(python.parent.parent.glob("lib/python*/site-packages"), "")),
        "certificate": str(place.folder / CERTIFICATE),
        "key": str(place.folder / KEY),
        "http_major": "2" if workload.http_version == "2" else "1",
        "build": str(environments.folder_of(contestant) / "bin"),
    }


def _app(contestant: Contestant, workload: Workload) -> str:
    """Return the application that is started: one that measures another's time if it is timed."""
    entry = contestant.entry
    if workload.is_timed:
        return f"bench.timed:{entry.interface}"
    return (workload.app or entry.app) if entry.app else ""


def _another_port(port: int) -> int:
    found = free_port()
    return found if found != port else _another_port(port)


def variables(
    contestant: Contestant,
    workload: Workload,
    filled: Mapping[str, str],
    application: UserApplication | None,
) -> dict[str, str]:
    """Return its environment variables, besides the inherited ones."""
    entry = contestant.entry
    found = {
        "RACE_CONTENT": workload.content or "",
        "RACE_TARGET": entry.target or workload.target,
        "RACE_FILE": f"{filled['folder']}/{LARGE_FILE}" if workload.file_bytes else "",
        "PYTHONPATH": str(APPS),
        **{name: fill(text, filled) for name, text in entry.environment.items()},
    }
    if workload.is_timed:
        found["RACE_TIMED"] = workload.app or entry.app
        found["RACE_TIMED_INTERFACE"] = entry.interface
    if application is not None:
        folders = (USER_PACKAGES, *application.import_folders)
        found["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        found |= _without_own_files(filled)
        found["RACE_USER_PATH"] = os.pathsep.join(path for path in sys.path if path)
    return found


def _without_own_files(filled: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep servers from reading their own files in the user's folder.

    All servers of a race are measured with the settings of their contestants.
    """
    empty = f"{filled['folder']}/{GUNICORN_FILE}"
    return {"BOLIDE_CONFIG": os.devnull, "GUNICORN_CMD_ARGS": f"--config {empty}"}


def start_companion(workload: Workload, place: Place) -> Process:
    """Start the server that the workload's application uses."""
    host, port = place.address
    return Process(
        [sys.executable, str(APPS / workload.companion), host, str(port)],
        cpus=place.cpus,
        folder=place.folder,
        log=place.folder / "companion-log",
        variables={"RACE_CONTENT": workload.content or ""},
    )


def start(
    contestant: Contestant,
    workload: Workload,
    place: Place,
    application: UserApplication | None = None,
    companion_port: int | None = None,
) -> Process:
    """Write its files and start it, a user's application in the user's folder.

    Raises:
        ConfigError: it has an unknown placeholder.
    """
    filled = values(contestant, workload, place, application)
    if place.pair is not None:
        place.pair.write(place.folder)
    if workload.file_bytes is not None:
        (place.folder / LARGE_FILE).write_bytes(FILE_BYTE * workload.file_bytes)
    for name, text in contestant.files.items():
        path = place.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(fill(text, filled, is_strict=False), encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    if application is not None:
        (place.folder / GUNICORN_FILE).touch()
    return Process(
        command(contestant, filled),
        cpus=place.cpus,
        folder=application.folder if application else place.folder,
        log=place.folder / "server-log",
        variables=variables(contestant, workload, filled, application)
        | ({} if companion_port is None else {"RACE_COMPANION_PORT": str(companion_port)}),
    )
