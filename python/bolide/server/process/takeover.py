"""A binary upgrade, in the new process: what it gets from the old one, and how it takes over.

`handover.py` has the tables of both processes, and `upgrade.py` is the side of the old one.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server.kernel import has_ended
from bolide.server.listener import Listener
from bolide.server.logs import logger
from bolide.server.process import handover
from bolide.server.process.handover import NEW, Event, New
from bolide.server.process.upgrade import VARIABLE, received

CREDENTIALS = struct.Struct("3i")
"""Process, user and group of the process that has made the pair of sockets (unix(7))."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the old process has passed to this one."""

    addresses: Sequence[Address]
    redirecting: Sequence[Address]
    management: Sequence[Address]
    socket: socket.socket
    pid: int
    """The old process."""
    number: int
    began_unix_s: float

    def take_files(self, listeners: list[Listener]) -> None:
        """Own the files of the UNIX sockets that the old process owned."""
        passed = (*self.addresses, *self.redirecting, *self.management)
        files = {each.fd: each.path for each in passed}
        for index, each in enumerate(listeners):
            if files.get(each.socket.fileno()):
                listeners[index] = each.owned()


@dataclass(frozen=True, slots=True)
class Actions:
    """What the new process does when something has happened."""

    prepare: Callable[[], str]
    """Write the pid file; returns why that is not possible, or ""."""
    own: Callable[[frozenset[str]], None]
    """Be the service, and do what is left to do."""
    fail: Callable[[str], None]
    """Stop: the old process goes on."""


class Takeover:
    """What the new process does about the old one."""

    def __init__(
        self, inherited: Inherited, selector: selectors.BaseSelector, actions: Actions
    ) -> None:
        self._end = inherited.socket
        self._pid = inherited.pid
        self._selector = selector
        self._actions = actions
        self._stage = New.STARTING
        self.due: float | None = None
        """When `do_what_is_due` has something to do."""

    def fds(self) -> list[int]:
        """Return the descriptors that no worker needs."""
        return [self._end.fileno()] if self._end.fileno() >= 0 else []

    def serves(self) -> None:
        """Offer to take over, because all workers serve."""
        self._take(Event.BEGUN)

    def stop(self) -> None:
        """Leave everything to the old process, because this one is to stop before it owns it."""
        if (self._stage, Event.STOPPED) in NEW:
            self._take(Event.STOPPED)

    def read(self) -> None:
        """Read what the old process has sent."""
        for event, waiting in received(self._end):
            self._take(event, waiting)
            if self._stage not in (New.OFFERING, New.OWNING):
                return

    def do_what_is_due(self, now: float) -> None:
        """Do without a message that does not come."""
        if self.due is not None and self.due <= now:
            self.read()
            if self.due is not None and self.due <= now:
                self._take(Event.LATE)

    def _take(self, event: Event, waiting: frozenset[str] = frozenset()) -> None:
        """Enter the next stage, and do what the table says. Other events have no effect."""
        after = NEW.get((self._stage, event))
        if after is None:
            return
        before, self._stage = self._stage, after
        if after is New.OFFERING:
            self._selector.register(self._end, selectors.EVENT_READ, self.read)
            self._send(handover.SERVES)
        elif after is New.OWNING:
            self._prepare()
        elif after is New.MAIN:
            self._own(event, before, waiting)
        elif after is New.FAILED:
            self._close(is_watched=before is not New.STARTING)
            if event is Event.LATE:
                text = f"process {self._pid}, which was to hand over, has not responded"
                self._actions.fail(f"{text} for {handover.MESSAGE_S:g} s")
            elif event is Event.NO:
                self._actions.fail(f"process {self._pid} serves on")

    def _prepare(self) -> None:
        """Do everything that can fail, while the old process still serves."""
        if why := self._actions.prepare():
            self._stage = New.FAILED
            self._close(is_watched=True)
            self._actions.fail(why)
        else:
            self._send(handover.OWNS)

    def _own(self, event: Event, before: New, waiting: frozenset[str]) -> None:
        if event is Event.LATE:
            waiting = self._hear_last()
        self._close(is_watched=True)
        if event is Event.CLOSED:
            logger.warning("process %d ended before it had handed over", self._pid)
            if before is New.OFFERING and (why := self._actions.prepare()):
                logger.error("%s", why)
        elif event is Event.LATE:
            text = "process %d has not responded for %g s; this one serves, and that one may too"
            logger.warning(text, self._pid, handover.MESSAGE_S)
        self._actions.own(waiting)

    def _hear_last(self) -> frozenset[str]:
        """Return what came just now; the old process notices that what it sends later is lost."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RD)
        return frozenset().union(*(waiting for _, waiting in received(self._end)))

    def _send(self, message: bytes) -> None:
        self.due = time.monotonic() + handover.MESSAGE_S
        with suppress(OSError):  # it has ended, which is read next
            self._end.send(message)

    def _close(self, *, is_watched: bool) -> None:
        self.due = None
        if is_watched:
            self._selector.unregister(self._end)
        self._end.close()


def of(
    inherited: Inherited | None, selector: selectors.BaseSelector, actions: Actions
) -> Takeover | None:
    """Return what a process does that was started by an old one; None in any other."""
    return None if inherited is None else Takeover(inherited, selector, actions)


def inherited(environ: MutableMapping[str, str], scheme: str) -> Inherited | None:
    """Return what an old process has passed to this one, and forget it; None if there is none.

    Raises:
        ConfigError: the variable has another origin.
    """
    text = environ.pop(VARIABLE, "")
    if not text:
        return None
    try:
        passed = json.loads(text)
        found = Inherited(
            [Address(fd=fd, path=path, scheme=scheme) for fd, path in passed["listeners"]],
            [Address(fd=fd, path=path) for fd, path in passed["redirecting"]],
            [Address(fd=fd, path=path) for fd, path in passed["management"]],
            _socket_of(passed["fd"], passed["pid"]),
            int(passed["pid"]),
            int(passed["number"]),
            float(passed["began_unix_s"]),
        )
    except (ValueError, KeyError, TypeError, OSError):
        text = f"{VARIABLE} is set by the server itself when it is upgraded; unset it"
        raise ConfigError(text) from None
    if environ.get("WATCHDOG_PID") == str(found.pid):
        environ["WATCHDOG_PID"] = str(os.getpid())
    return found


def _socket_of(fd: int, pid: int) -> socket.socket:
    """Return the socket whose other end is the old process: our parent, unless it has ended.

    Raises:
        ValueError: the descriptor is another one.
        OSError: it is none of a socket.
    """
    end = socket.socket(fileno=fd)
    try:
        _check(end, pid)
        end.set_inheritable(False)
        end.setblocking(False)
    except BaseException:
        end.detach()
        raise
    return end


def _check(end: socket.socket, pid: int) -> None:
    if (end.family, end.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
        raise ValueError("the socket is of another kind")
    option = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    if CREDENTIALS.unpack(option)[0] != pid:
        raise ValueError("the socket is of another process")
    if os.getppid() != pid and not has_ended(pid):
        raise ValueError("the process is not our parent")
