"""A binary upgrade, in the old process: it starts a new one, and drains when that has taken over.

`handover.py` has the tables of both processes, `takeover.py` is the side of the new one, and
`origin.py` says how it is started. The new process gets the listening sockets as descriptors, and
one end of a pair of sockets, all described by a variable.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bolide.server import systemd
from bolide.server.child import how_ended
from bolide.server.logs import logger
from bolide.server.process import handover
from bolide.server.process.handover import OLD, Event, Old
from bolide.server.process.lifetime import as_written

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.listener import Listener
    from bolide.server.process.origin import Origin
    from bolide.server.process.sockets import Sockets

VARIABLE = "BOLIDE_INHERITED"
"""What a new process gets from the old one. It is no option."""
INIT_PID = 1
"""The first process of a container."""
INITS_OF_CONTAINERS = frozenset(
    ("ash", "bash", "catatonit", "dash", "docker-init", "dumb-init", "podman-init", "sh", "tini")
)
"""First processes that end when the one ends that they have started (proc(5): comm)."""
ENDS_S = 1.0
"""Time for a new process to end, beyond the graceful time, after it was given up."""
KILLED_S = 1.0
"""Time for a process to end that was killed."""
CLOSED_FD = -1
STOPPED = "this process stops"
FAILED = "the upgrade has failed: %s; this process keeps serving"


@dataclass(frozen=True, slots=True)
class Given:
    """What a new process gets."""

    origin: Origin
    sockets: Sockets
    number: int
    """That of the upgrade, by which the status of the new process has its result."""
    began_unix_s: float
    """When the old process was started."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the old process waits, in seconds."""

    serves_s: float
    """Until the new one serves."""
    ends_s: float
    """Until one that was given up has ended."""
    option: str = ""
    """The first, as its user has written it."""


def patience(settings: Settings) -> Patience:
    """Return what the options allow."""
    limit_ms = settings.upgrade_timeout_ms
    option = as_written(settings, "upgrade_timeout_ms", str(limit_ms))
    return Patience(limit_ms / 1000, settings.graceful_timeout_ms / 1000 + ENDS_S, option)


def hindrance(origin: Origin) -> str:
    """Return why an upgrade would end the service; "" if it would not."""
    if os.getpid() == INIT_PID:
        return "a container ends with its first process; replace both"
    if origin.parent_pid == INIT_PID and _name_of_init() in INITS_OF_CONTAINERS:
        return "the container ends when the process that its init has started does; replace both"
    if systemd.ends_with(os.getpid(), origin.environ):
        remedy = "give its unit Type=notify, or use HUP"
        return f"systemd ends the service with its first process; {remedy}"
    return ""


def _name_of_init() -> str:
    try:
        return Path(f"/proc/{INIT_PID}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


class Process(Protocol):
    """A process that was started."""

    pid: int

    def poll(self) -> int | None:
        """Reap it if it has ended, and return how: as subprocess does."""

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it was reaped."""

    def wait(self, timeout: float) -> int:
        """As `poll`, but wait for it for so many seconds.

        Raises:
            subprocess.TimeoutExpired: it has not ended.
        """


Start = Callable[[Given], "tuple[Process, socket.socket]"]


@dataclass(slots=True)
class Actions:
    """What the old process does when something has happened."""

    hand_over: Callable[[int], str]
    """Notify systemd that this process is the service; returns why that is not possible, or ""."""
    waiting: Callable[[], Iterable[str]]
    """Returns what is left to do for the new process."""
    leave: Callable[[], None]
    """Drain, because the new process serves."""
    failed: Callable[[], None]
    """Go on, because the new process has ended."""


@dataclass(slots=True)
class _New:
    """The new process, as the old one knows it."""

    process: Process
    socket: socket.socket
    patience: Patience
    due: float | None
    why: str = ""
    """Why it was given up; "" if only its end says that."""
    is_watched: bool = True


class Upgrades:
    """What the old process does: one upgrade at a time."""

    def __init__(
        self, selector: selectors.BaseSelector, actions: Actions, start: Start | None = None
    ) -> None:
        """Start none yet; `selector` watches its messages, with what to call as data."""
        self._selector = selector
        self._actions = actions
        self._start = spawn if start is None else start
        self._stage = Old.ALONE
        self._new: _New | None = None

    @property
    def pid(self) -> int | None:
        """The new process, until it has ended."""
        return self._new.process.pid if self._new is not None else None

    @property
    def due(self) -> float | None:
        """When `do_what_is_due` has something to do."""
        return self._new.due if self._new is not None else None

    def fds(self) -> list[int]:
        """Return the descriptors that no worker needs."""
        fd = self._new.socket.fileno() if self._new is not None else CLOSED_FD
        return [] if fd == CLOSED_FD else [fd]

    def start(self, given: Given, patience: Patience) -> bool:
        """Start a process that takes over; return whether it was started. The log says why not."""
        if self._new is not None:
            logger.info("SIGUSR2 is ignored: process %d is taking over already", self.pid)
            return False
        try:
            process, end = self._start(given)
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
            logger.error(FAILED, f"no process can be started: {what}")
            return False
        due = time.monotonic() + patience.serves_s
        self._new = _New(process, end, patience, due)
        self._selector.register(end, selectors.EVENT_READ, self.read)
        self._take(Event.BEGUN)
        logger.info("upgrading: process %d starts, and then takes over", process.pid)
        return True

    def read(self) -> None:
        """Read what the new process has sent."""
        new = self._new
        if new is None or not new.is_watched:
            return
        for event, _ in received(new.socket):
            if new.is_watched:
                self._take(event)

    def do_what_is_due(self, now: float) -> None:
        """Give the new process up, or kill it, if its time is over; what it has sent is read."""
        self.read()
        if self._new is not None and self._new.due is not None and self._new.due <= now:
            self._take(Event.LATE)

    def stop(self, number: signal.Signals) -> None:
        """End the new process with a signal, unless it has taken over."""
        if (self._stage, Event.STOPPED) in OLD and self._new is not None:
            self._take(Event.STOPPED)
            self._new.process.send_signal(number)

    def close(self) -> None:
        """Kill the new process, unless it has taken over, because this one ends.

        Otherwise one that hangs would keep the sockets, at which nobody serves. Its workers finish
        what they have begun.
        """
        if self._new is not None and self._stage is not Old.LEFT:
            self._new.process.send_signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._new.process.wait(KILLED_S)  # a script may go on for long

    def collect(self) -> None:
        """Reap the new process if it has ended."""
        new = self._new
        if new is None or (code := new.process.poll()) is None:
            return
        stage = self._stage
        self._take(Event.ENDED)
        what = f"process {new.process.pid} ended: {how_ended(code)}"
        if stage is Old.LEFT:
            if code:
                logger.error(
                    "%s, after it had taken over: no process will be serving when this one ends",
                    what,
                )
            return
        if new.why == STOPPED:
            return
        if not new.why:
            logger.error(FAILED, what)
        self._actions.failed()

    def _take(self, event: Event) -> None:
        """Enter the next stage, and do what the table says. Other events have no effect."""
        after, new = OLD.get((self._stage, event)), self._new
        if after is None or new is None:
            return
        if after is Old.LEFT and not self._can_leave(new):
            return
        before, self._stage = self._stage, after
        if after is Old.CONFIRMING:
            new.due = time.monotonic() + handover.MESSAGE_S
            _send(new.socket, handover.YOURS)
        elif after is Old.LEFT:
            self._leave(new)
        elif after is Old.GIVEN_UP:
            self._give_up(new, before, event)
        elif after is Old.ALONE:
            self._unwatch(new)
            new.socket.close()
            self._new = None

    def _can_leave(self, new: _New) -> bool:
        """Return whether the new process is alive, and is the service now for systemd too."""
        if _has_ended(new.process.pid):
            return False  # its end is reported next
        if why := self._actions.hand_over(new.process.pid):
            new.why = why
            logger.error(FAILED, why)
            self._take(Event.LATE)
            return False
        return True

    def _leave(self, new: _New) -> None:
        logger.info("process %d serves, and this one drains", new.process.pid)
        new.due = None
        waiting = list(self._actions.waiting())
        try:
            if not _send(new.socket, handover.main_message(waiting)):
                # It serves already, because this process was late.
                for each in waiting:
                    new.process.send_signal(handover.SIGNALS[each])
        finally:
            self._unwatch(new)
            new.socket.close()
            self._actions.leave()

    def _give_up(self, new: _New, before: Old, event: Event) -> None:
        """Let the new process end; what happens then depends on why."""
        self._unwatch(new)
        new.due = time.monotonic() + new.patience.ends_s
        if before is Old.GIVEN_UP:
            new.due = None
            logger.warning("process %d has not ended in time; killing it", new.process.pid)
            new.process.send_signal(signal.SIGKILL)
            return
        if event is Event.CLOSED:
            return  # it ends by itself
        if event is Event.STOPPED:
            new.why = STOPPED
        elif not new.why:
            new.why = self._late(new, before)
            logger.error(FAILED, new.why)
        _send(new.socket, handover.NO)
        if event is Event.LATE:
            new.process.send_signal(signal.SIGTERM)

    def _late(self, new: _New, before: Old) -> str:
        pid, patience = new.process.pid, new.patience
        if before is Old.STARTING:
            return f"process {pid} does not serve after {patience.serves_s:g} s ({patience.option})"
        return f"process {pid} has not responded for {handover.MESSAGE_S:g} s"

    def _unwatch(self, new: _New) -> None:
        if new.is_watched:
            new.is_watched = False
            self._selector.unregister(new.socket)


def received(end: socket.socket) -> Iterator[tuple[Event, frozenset[str]]]:
    """Yield what the other process has sent; the last is its end, if it has closed its socket."""
    while True:
        try:
            message = end.recv(handover.MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except ConnectionError:  # it has not read everything; what it has sent follows
            continue
        except OSError:
            message = b""
        event, waiting = handover.event_of(message)
        if event is not None:
            yield event, waiting
        if event is Event.CLOSED:
            return


def _send(end: socket.socket, message: bytes) -> bool:
    """Send a message, for which there is always room; return whether the other end is open.

    A process that has ended is noticed otherwise.
    """
    try:
        return end.send(message) > 0
    except OSError:
        return False


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, and leave it to be reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def spawn(given: Given) -> tuple[Process, socket.socket]:
    """Start the new process; return it, and this side of the pair of sockets.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = pair()
    sockets = given.sockets
    environ = {**given.origin.environ, VARIABLE: described(given, theirs.fileno())}
    if os.environ.get("WATCHDOG_PID") == str(os.getpid()):
        environ["WATCHDOG_PID"] = str(os.getpid())  # the new process puts its own in place of it
    try:
        with ExitStack() as stack:
            for fd in (theirs.fileno(), *sockets.served_fds(), *sockets.management.bound_fds()):
                os.set_inheritable(fd, True)
                stack.callback(os.set_inheritable, fd, False)
            # What this process was given besides, such as a lock, is passed on too.
            process = subprocess.Popen(  # noqa: S603 - as this process was started
                given.origin.command,
                cwd=given.origin.folder or None,
                env=environ,
                close_fds=False,
            )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def pair() -> tuple[socket.socket, socket.socket]:
    """Create the sockets of two processes; neither of them ever waits for the other.

    Raises:
        OSError: no descriptor is left.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def described(given: Given, fd: int) -> str:
    """Return the value of the variable."""
    sockets = given.sockets
    return json.dumps(
        {
            "pid": os.getpid(),
            "fd": fd,
            "number": given.number,
            "began_unix_s": given.began_unix_s,
            "listeners": [_described(each) for each in sockets.served],
            "redirecting": [_described(each) for each in sockets.redirecting],
            "management": [_described(each) for each in sockets.management.bound],
        }
    )


def _described(each: Listener) -> tuple[int, str]:
    """Return the descriptor, and the path of the file, if it is ours to remove."""
    return each.socket.fileno(), each.address.path if each.inode else ""
