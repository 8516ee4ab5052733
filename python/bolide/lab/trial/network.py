"""A network namespace of its own for one trial: its kernel settings do not touch the machine's.

The calling thread enters a new namespace, and every process that it starts is in it too. It needs
root (CAP_SYS_ADMIN).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
INTERFACE = "16sh22x"
"""struct ifreq: the interface's name and its flags."""
OWN = Path("/proc/thread-self/ns/net")
SYSCTLS = Path("/proc/sys")


class NetworkError(Exception):
    """No namespace, or a setting that it does not have; the text is one line."""


@contextmanager
def own(sysctls: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Run the body in a network namespace that has only loopback, with these settings.

    Without settings, the body runs in the machine's network.

    Raises:
        NetworkError: a namespace cannot be made here, or it has no such setting.
    """
    if not sysctls:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with OWN.open("rb") as before:
        if libc.unshare(CLONE_NEWNET):
            reason = os.strerror(ctypes.get_errno())
            raise NetworkError(f"no network namespace of its own ({reason}; it needs root)")
        try:
            _raise_loopback()
            for name, value in sysctls:
                _set(name, value)
            yield
        finally:
            if libc.setns(before.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "cannot return to the machine's network")


def refusal(sysctls: Sequence[tuple[str, str]]) -> str:
    """Return why such a namespace cannot be made here; "" if it can."""
    try:
        with own(sysctls):
            return ""
    except NetworkError as error:
        return str(error)


def _raise_loopback() -> None:
    """Set the interface `lo` up, which is down in a new namespace.

    Raises:
        NetworkError: the kernel refuses.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            request = struct.pack(INTERFACE, b"lo", 0)
            name, flags = struct.unpack(INTERFACE, fcntl.ioctl(control, SIOCGIFFLAGS, request))
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack(INTERFACE, name, flags | IFF_UP))
    except OSError as error:
        raise NetworkError(f"cannot set up loopback ({error.strerror})") from None


def _set(name: str, value: str) -> None:
    """Write a kernel setting of this namespace.

    Raises:
        NetworkError: there is none of that name, or it cannot be written.
    """
    try:
        (SYSCTLS / name.replace(".", "/")).write_text(value, encoding="utf-8")
    except OSError as error:
        raise NetworkError(f"cannot set {name} to {value} ({error.strerror})") from None
