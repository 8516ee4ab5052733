"""What systemd passes to a service, and what it is notified of (sd_listen_fds(3), sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

from bolide.config.address import Address
from bolide.errors import ConfigError

FIRST_FD = 3
"""Of the sockets that are passed (SD_LISTEN_FDS_START)."""


def passed(environ: MutableMapping[str, str]) -> list[Address]:
    """Return the sockets that systemd has passed to this process, and forget them.

    Raises:
        ConfigError: the variables are not as systemd sets them.
    """
    count, pid = environ.get("LISTEN_FDS", ""), environ.get("LISTEN_PID", "")
    if pid != str(os.getpid()):
        return []  # there are none, or they are a parent's
    if not (count.isascii() and count.isdigit()):
        raise ConfigError(f"LISTEN_FDS: {count!r} is not a number of sockets")
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        environ.pop(name, None)
    return [Address(fd=FIRST_FD + index) for index in range(int(count))]


class Notifications:
    """Notifies systemd of the state of the service, if it asks for that (Type=notify).

    Nothing is reported if it cannot be reached: the service goes on without it.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = name.replace("@", "\0", 1) if name.startswith("@") else name
        self._watchdog_s = _watchdog_s(environ)
        self.due: float | None = None
        """When the watchdog is to be notified; None if there is none."""

    def ready(self, status: str) -> None:
        """Report that the service serves, after its start or a reload."""
        self._send(f"READY=1\nSTATUS={status}")
        self.watch()

    def reloading(self) -> None:
        """Report that a reload has begun, which `ready` ends."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading")

    def stopping(self) -> None:
        """Report that the service stops."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def hand_over(self, pid: int) -> None:
        """Report that another process is the service now; nothing is reported from now on."""
        self._send(f"MAINPID={pid}\nREADY=1")
        self._address, self.due = "", None

    def watch(self) -> None:
        """Notify the watchdog, twice as often as it needs (WatchdogSec)."""
        if self._watchdog_s is not None and self._address:
            self._send("WATCHDOG=1")
            self.due = time.monotonic() + self._watchdog_s / 2

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.setblocking(False)
            sending.sendto(message.encode(), self._address)


def _watchdog_s(environ: MutableMapping[str, str]) -> float | None:
    interval_us = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    if not is_ours or not interval_us.isascii() or not interval_us.isdigit():
        return None
    return int(interval_us) / 1_000_000 or None
