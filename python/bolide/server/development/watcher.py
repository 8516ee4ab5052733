"""The process that watches files: it reports changes, and ends with its supervisor.

It is a process of its own, because watchfiles runs threads, and the supervisor forks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from bolide import _core

if TYPE_CHECKING:
    from bolide.server.development.selection import Selection

STEP_MS = 25
"""How often changes are looked for."""
LOOK_MS = 50
"""How often it is checked whether there are no more."""
QUIET_S = 0.05
"""Changes are one until there have been none for so long, as when many files are checked out."""
QUIET_S_MAX = 2.0
"""The limit of that, for a program that writes without end."""
NAMED_MAX = 3
"""Files that a report names."""


def run(selection: Selection, since_unix_ns: int, lifeline_fd: int, report_fd: int) -> int:
    """Watch until the supervisor ends; return the exit code, if that is not possible.

    Files that have changed since then, before they were watched, are reported too.
    """
    _core.follow(lifeline_fd, 0)
    report = partial(_report, report_fd)
    try:
        _watch(selection, since_unix_ns, report)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        report({"error": why})
    return 1


def _watch(selection: Selection, since_unix_ns: int, report: Any) -> None:
    from watchfiles import watch

    changes = watch(
        *selection.folders,
        watch_filter=None,  # one would swallow the looks at files that change all the time
        step=STEP_MS,
        debounce=STEP_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    pending: set[str] = set()
    first_s = last_s = 0.0
    is_ready = False
    for found in changes:
        counted = {path for _, path in found if selection.counts(path)}
        if not is_ready:
            is_ready = True
            report({"watching": True})
            counted |= selection.changed_since(since_unix_ns)
        now = time.monotonic()
        if counted:
            last_s = now
            first_s = first_s if pending else now
            pending |= counted
        if pending and (now - last_s >= QUIET_S or now - first_s >= QUIET_S_MAX):
            forget_compiled(pending)
            report({"changed": _named(pending, selection)})
            pending.clear()


def forget_compiled(paths: Iterable[str]) -> None:
    """Remove what Python has compiled of these files.

    It would use that again for a file that was changed within the same second and has the same
    length: the time in a .pyc file is in whole seconds.
    """
    for path in paths:
        if path.endswith(".py"):
            with suppress(OSError, NotImplementedError):
                os.unlink(importlib.util.cache_from_source(path))


def _named(paths: set[str], selection: Selection) -> str:
    """Return the names of a few of the files."""
    first = sorted(paths)[:NAMED_MAX]
    shown = [os.path.relpath(each, selection.folders[0]) for each in first]
    more = len(paths) - len(shown)
    names = ", ".join(repr(each)[1:-1] for each in shown)
    return names + (f" and {more} more" if more else "")


def _report(report_fd: int, message: dict[str, Any]) -> None:
    os.write(report_fd, json.dumps(message).encode() + b"\n")
