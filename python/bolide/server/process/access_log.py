"""Opens the file of the access log, which workers inherit, or get through their channel."""

from __future__ import annotations

import errno
import os
import sys

from bolide.errors import ConfigError


def open_access_log(path: str) -> int | None:
    """Open the access log for appending; None if it is off. The caller closes the descriptor.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path == "off":
        return None
    if path == "-":
        return _standard_output()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_NONBLOCK, 0o644)  # does not wait for a FIFO's reader
        os.set_blocking(fd, True)
        return fd
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ConfigError(
                f"cannot write the access log {path}: the FIFO has no reader"
            ) from None
        raise ConfigError(f"cannot write the access log {path}: {error.strerror}") from None


def _standard_output() -> int:
    try:
        if sys.__stdout__ is not None:
            return os.dup(sys.__stdout__.fileno())
    except (OSError, ValueError):
        pass
    raise ConfigError("cannot write the access log -: standard output is closed; give a file")
