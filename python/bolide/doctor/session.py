"""Writes the settings of a profile, and restores the old values.

The order matters: the record is on the disk before the first setting changes, and is removed after
the last one is restored. The process may be killed at any time in between; `restore` then completes
it.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from bolide.doctor import record
from bolide.doctor.finding import setting_path
from bolide.doctor.profile import Change, plan, read
from bolide.doctor.source import Source, Unreadable
from bolide.errors import ConfigError

EXIT_LEFT = 1
"""Some settings were not restored: something else changed them, or they cannot be written."""
EXIT_SIGNAL = 128
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
FROM_KERNEL = 0x80
"""si_code of a signal from the terminal, which also reaches the command."""

Say = Callable[[str], None]


def tune(root: Path, profile: str, command: list[str], say: Say, *, is_dry: bool = False) -> int:
    """Apply a profile, or run a command under it and restore; return the exit code.

    Raises:
        ConfigError: not root, already tuned, no such command, or a setting cannot be written, in
            which case all of them are restored.
    """
    source = Source(root)
    if not is_dry:
        record.refuse_second(root)
    changes, left_out = plan(source, profile)
    for line in left_out:
        say(line)
    for each in changes:
        say(f"{each.name}: {each.old} -> {each.new}")
    if not changes:
        say(f"nothing to change: this machine already has all settings of profile {profile}")
    if is_dry:
        return 0
    _require_root(source)
    if command and shutil.which(command[0]) is None:
        raise ConfigError(f"cannot run {command[0]!r}: no such command")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    try:
        return _tune(source, profile, changes, command, say)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _tune(source: Source, profile: str, changes: list[Change], command: list[str], say: Say) -> int:
    kept = record.create(source.root, profile, changes)
    if plan(source, profile)[0] != changes:
        kept.remove()
        raise ConfigError("the settings changed while they were read; run it again")
    _apply(source, kept, say)
    if command:
        try:
            code = _run(command)
        finally:
            left = _restore(source, kept, say)
        return code or left
    if changes:
        kept.close()
        say(f"tuned until the machine restarts, or: {record.RESTORE}")
    else:
        kept.remove()
    return 0


def _apply(source: Source, kept: record.Record, say: Say) -> None:
    for each in kept.content.changes:
        try:
            _write(source, each)
        except (OSError, Unreadable) as error:
            left = _restore(source, kept, say)
            after = "see above what was changed" if left else "all settings are as before"
            raise ConfigError(f"cannot write {each.name}: {_reason(error)}; {after}") from None


def restore(root: Path, say: Say) -> int:
    """Restore the recorded values; return 1 if some could not be restored.

    Raises:
        ConfigError: not root, or a command is still running under them.
    """
    source = Source(root)
    kept = record.take(root)
    if kept is None:
        say("nothing to restore: there is no record")
        return 0
    try:
        _require_root(source)
    except ConfigError:
        kept.close()
        raise
    return _restore(source, kept, say)


def _restore(source: Source, kept: record.Record, say: Say) -> int:
    """Undo the changes, the last one first. The record stays while one of them can be undone."""
    is_left = is_stuck = False
    for each in reversed(kept.content.changes):
        try:
            now = read(source, each.name)
            if now == each.new:
                _put(source, each.name, each.old)
                say(f"{each.name}: {each.new} -> {each.old}")
            elif now != each.old:
                is_left = True
                say(
                    f"{each.name} is left at {now}: it was changed after --tune had set "
                    f"{each.new}; before that it was {each.old}"
                )
        except (OSError, Unreadable) as error:
            is_stuck = True
            say(f"{each.name} is not restored to {each.old}: {_reason(error)}")
    if is_stuck:
        kept.close()
        say(f"the record remains in {kept.path}; {record.RESTORE} again")
    else:
        kept.remove()
    return EXIT_LEFT if is_left or is_stuck else 0


def _write(source: Source, change: Change) -> None:
    """Write a setting; undo it if the kernel stores another value.

    Raises:
        OSError: it cannot be written.
        Unreadable: the kernel stored another value.
    """
    _put(source, change.name, change.new)
    now = read(source, change.name)
    if now != change.new:
        _put(source, change.name, change.old)
        raise Unreadable(f"the kernel stored {now} instead of {change.new}")


def _put(source: Source, name: str, value: str) -> None:
    fd = os.open(source.root / setting_path(name), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode() + b"\n")
    finally:
        os.close(fd)


def _run(command: list[str]) -> int:
    """Run a command to its end, forward signals to it, and return its exit code.

    The signals have been blocked since before the first change, so none is lost and none ends this
    process.

    Raises:
        ConfigError: it cannot be run.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, sigwait would not return it
    try:
        pid = os.posix_spawnp(
            command[0], command, os.environ, setsigmask=(), setsigdef=(signal.SIGPIPE,)
        )
    except OSError as error:
        raise ConfigError(f"cannot run {command[0]!r}: {error.strerror}") from None
    while True:
        received = signal.sigwaitinfo({*FORWARDED, signal.SIGCHLD})
        if received.si_signo != signal.SIGCHLD:
            if received.si_code != FROM_KERNEL:
                os.kill(pid, received.si_signo)
            continue
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return EXIT_SIGNAL - code if code < 0 else code


def _require_root(source: Source) -> None:
    if source.is_real and os.geteuid() != 0:
        raise ConfigError("writing kernel settings needs root; run it again with sudo")


def _reason(error: OSError | Unreadable) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
