"""How this process was started: the command, the folder and the environment.

A new process that takes over is started in the same way, whatever the application has changed
since. Everything is a path, and is looked up again then: a link that names another release by now,
or a new virtual environment in the same place, is what is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SCRIPT_LINE_BYTES_MAX = 256
"""Of the first line of a script, by which the kernel finds its interpreter."""
OF_ONE_PROCESS = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
"""Variables that are for the first process alone: the new one gets the sockets themselves."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to start this process again."""

    command: Sequence[str]
    folder: str
    environ: Mapping[str, str]
    parent_pid: int
    """The process that has started this one, which may have ended since."""

    @classmethod
    def of_this_process(cls) -> Origin:
        """Return it as it is now: to be called before an application runs."""
        environ = {name: it for name, it in os.environ.items() if name not in OF_ONE_PROCESS}
        started = command(sys.orig_argv, sys.executable)
        return cls(started, folder(environ), environ, os.getppid())


def command(arguments: Sequence[str], executable: str) -> list[str]:
    """Return what to run: the script whose first line named the interpreter, or that interpreter.

    Args:
        arguments: those of this process, the interpreter's first.
        executable: the interpreter, as Python sees it.
    """
    for count in (1, 2):
        if arguments[count:] and _runs_with(arguments[count], arguments[:count]):
            return list(arguments[count:])
    named = arguments[0] if arguments else ""
    with suppress(OSError):
        if named and os.path.samefile(_program(named), executable):
            return list(arguments)  # a relative path stays one: its folder may be another by then
    return [executable, *arguments[1:]]


def _program(named: str) -> str:
    """Return the path of a program that is named as in a shell; "" if there is none."""
    if os.path.dirname(named):
        return named
    from shutil import which  # loads every compression module: most of a megabyte

    return which(named) or ""


def folder(environ: Mapping[str, str]) -> str:
    """Return the current folder by the name that the shell has for it, which may be a link."""
    try:
        here = os.getcwd()
    except OSError:
        return ""  # it was removed
    named = environ.get("PWD", "")
    with suppress(OSError):
        if os.path.isabs(named) and os.path.samefile(named, here):
            return named
    return here


def _runs_with(script: str, interpreter: Sequence[str]) -> bool:
    """Return whether running a file as a program starts this interpreter."""
    if not os.access(script, os.X_OK) or not Path(script).is_file():
        return False
    try:
        with open(script, "rb") as file:
            line, newline, _ = file.read(SCRIPT_LINE_BYTES_MAX).partition(b"\n")
    except OSError:
        return False
    if not newline or not line.startswith(b"#!"):
        return False
    words = os.fsdecode(line[2:].strip()).split(maxsplit=1)
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
    return words == list(interpreter)
