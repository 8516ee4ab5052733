"""Opens the file of the access log, which workers inherit, or get through their channel."""

from __future__ import annotations

import errno
import os
import stat
import sys

from bolide.errors import ConfigError

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
"""How it is opened: without waiting for the reader of a FIFO."""


def open_access_log(path: str) -> int | None:
    """Open the access log for appending; None if it is off. The caller closes the descriptor.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path == "off":
        return None
    if path == "-":
        return _standard_output()
    try:
        fd = os.open(path, FLAGS | os.O_CREAT, 0o644)
        os.set_blocking(fd, True)
        return fd
    except OSError as error:
        raise _mistake(path, error) from None


def check_access_log(path: str) -> None:
    """Do what `open_access_log` does, except that no file is created and no FIFO opened.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path == "off":
        return
    if path == "-":
        os.close(_standard_output())
        return
    try:
        place = os.path.realpath(path)
        if not os.path.exists(place):
            _demand(os.path.dirname(place), os.W_OK | os.X_OK)
        elif stat.S_ISFIFO(os.stat(place).st_mode):  # its reader would notice that it is closed
            _demand(place, os.W_OK)
        else:
            os.close(os.open(place, FLAGS))
    except OSError as error:
        raise _mistake(path, error) from None


def _demand(place: str, mode: int) -> None:
    """Check that this process may use a place.

    Raises:
        OSError: it may not, or there is no such place.
    """
    os.stat(place)
    if not os.access(place, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _mistake(path: str, error: OSError) -> ConfigError:
    why = "the FIFO has no reader" if error.errno == errno.ENXIO else error.strerror
    return ConfigError(f"cannot write the access log {path}: {why}")


def _standard_output() -> int:
    try:
        if sys.__stdout__ is not None:
            return os.dup(sys.__stdout__.fileno())
    except (OSError, ValueError):
        pass
    raise ConfigError("cannot write the access log -: standard output is closed; give a file")
