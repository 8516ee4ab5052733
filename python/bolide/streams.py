"""Standard streams that may be closed or full, or that nobody reads any more.

What a command has found goes to standard output, and it says so if that cannot be written. Remarks
and progress go to standard error: if nothing takes them, the command goes on without.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO, cast

import click

from bolide.errors import Error


def say(line: str) -> None:
    """Write a line to standard error, if it takes one: the exit code says the rest."""
    try:
        click.echo(line, err=True)
    except OSError:
        discard(sys.stderr)


def show(text: str, what: str, *, color: bool | None = None) -> None:
    """Print a text. A reader that has closed the pipe has read enough: the exit code stays.

    Raises:
        Error: standard output cannot be written; `what` is what could not be printed.
    """
    if sys.stdout is None:
        _refuse(what, "standard output is closed")
    try:
        click.echo(text, color=color)
        sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            _refuse(what, error.strerror)


def discard(stream: TextIO) -> None:
    """Drop what a stream has not written; the exit would try again to write it, and fail."""
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


def forgive_errors() -> None:
    """Let standard error take everything from now on, whether or not it is written."""
    sys.stderr = _forgiving(sys.stderr, lambda error: None)


def forgive_output(what: str) -> None:
    """Let standard output take everything if it is closed, or when its reader has closed the pipe.

    From now on, any other failure to write raises `Error`; `what` is what could not be printed.
    """

    def lost(error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            _refuse(what, error.strerror)

    sys.stdout = _forgiving(sys.stdout, lost)


def _refuse(what: str, why: str | None) -> NoReturn:
    raise Error(f"cannot print {what}: {why}") from None


def _forgiving(stream: TextIO | None, lost: Callable[[OSError], None]) -> TextIO:
    """Return a stream that writes to this one; one without a file, such as a test's, stays."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return cast("TextIO", _Forgiving(stream, lost))


class _Forgiving:
    """A stream that drops everything from the first text on that cannot be written.

    It does not own the stream that it writes to: a second `TextIOWrapper` would close its buffer.
    """

    def __init__(self, stream: TextIO, lost: Callable[[OSError], None]) -> None:
        self._stream = stream
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Write what is in the buffer, or drop it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        discard(self._stream)
        self._lost(error)
