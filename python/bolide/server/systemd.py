"""What systemd passes to a service, and what it is notified of (sd_listen_fds(3), sd_notify(3))."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Mapping, MutableMapping

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server.logs import logger

FIRST_FD = 3
"""Of the sockets that are passed (SD_LISTEN_FDS_START)."""
FDS_MAX = 65_536
"""Sockets that are passed at most, whatever a process may have open."""
WATCHDOG_S_MIN = 0.1
"""Shortest interval of a watchdog that is kept: otherwise messages would be all of the work."""
WATCHDOG_DIGITS_MAX = 18
SEND_S = 1.0
"""Time for systemd to take a message: one that is lost could end the service."""


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
    if not is_possible(count):
        raise ConfigError(
            f"LISTEN_FDS: {count[:20]} sockets are more than this process may have open files"
        )
    return [Address(fd=FIRST_FD + index) for index in range(int(count))]


def is_possible(count: str) -> bool:
    """Return whether so many sockets can have been passed, written as decimal digits."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FDS_MAX if soft == resource.RLIM_INFINITY else min(soft, FDS_MAX)
    significant = count.lstrip("0")
    return len(significant) <= len(str(most)) and int(significant or "0") <= most


class Notifications:
    """Notifies systemd of the state of the service, if it asks for that (Type=notify).

    The service goes on if it cannot be reached. A process that is to take over from another one is
    silent until it has: what it notified would be believed of the service.
    """

    def __init__(self, environ: MutableMapping[str, str], *, is_service: bool = True) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = name.replace("@", "\0", 1) if name.startswith("@") else name
        self._is_service = is_service
        self._watchdog_s = _watchdog_s(environ)
        self.due: float | None = None
        """When the watchdog is to be notified; None if there is none."""

    def become_service(self) -> None:
        """Notify from now on: the process that was the service has handed over, or ended."""
        self._is_service = True
        self.watch()

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

    def hand_over(self, pid: int, status: str) -> str:
        """Report that another process is the service now; nothing is reported from now on.

        Return why systemd cannot be notified, or "". It would end the service with this process.
        """
        why = self._send(f"MAINPID={pid}\nREADY=1\nSTATUS={status}")
        if why:
            return f"systemd cannot be notified of process {pid}: {why}"
        self._is_service, self.due = False, None
        return ""

    def watch(self) -> None:
        """Notify the watchdog, twice as often as it needs (WatchdogSec)."""
        if self._watchdog_s is not None and self._address and self._is_service:
            self._send("WATCHDOG=1", wait_s=0.0)
            self.due = time.monotonic() + self._watchdog_s / 2

    def _send(self, message: str, wait_s: float = SEND_S) -> str:
        """Send a message; return why that is not possible, or ""."""
        if not self._address or not self._is_service:
            return ""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(wait_s)
                sending.sendto(message.encode(), self._address)
        except OSError as error:
            return error.strerror or str(error)
        return ""


def ends_with(pid: int, environ: Mapping[str, str]) -> bool:
    """Return whether systemd ends the service when this process of it ends (Type=exec, simple)."""
    return environ.get("SYSTEMD_EXEC_PID") == str(pid) and not environ.get("NOTIFY_SOCKET")


def _watchdog_s(environ: MutableMapping[str, str]) -> float | None:
    interval_us = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    if not is_ours or not interval_us.isascii() or not interval_us.isdigit():
        return None
    significant = interval_us.lstrip("0")
    if not significant or len(significant) > WATCHDOG_DIGITS_MAX:
        return None  # of 30,000 years, it is none
    interval_s = int(significant) / 1_000_000
    if interval_s < WATCHDOG_S_MIN:
        text = "WATCHDOG_USEC: systemd is notified for an interval of %g s, not of %g s, which is "
        logger.warning(text + "too short; raise WatchdogSec", WATCHDOG_S_MIN, interval_s)
    return max(interval_s, WATCHDOG_S_MIN)
