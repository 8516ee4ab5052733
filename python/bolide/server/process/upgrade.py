"""A binary upgrade: a new process takes over the listening sockets, and this one drains.

The new process runs the same command line with the same interpreter, which may be another version
by now. It gets the sockets as descriptors, described by a variable, and a pipe to which it writes
when it serves:

| the new process | the old one |
| --- | --- |
| starts | serves |
| serves, and owns the files of UNIX sockets | drains and ends |
| ends before it serves | reports that, and goes on |
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server.listener import Listener
from bolide.server.logs import logger

VARIABLE = "BOLIDE_INHERITED"
"""What a new process gets from the old one. It is no option."""
SERVES = b"serves\n"


class Upgrades:
    """The new process, as the old one sees it: one at a time."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        *,
        serves: Callable[[int], None],
        failed: Callable[[], None],
    ) -> None:
        """Start none yet.

        Args:
            selector: watches the report, with what to call as data.
            serves: called with the process id when the new process serves.
            failed: called when it has ended before that.
        """
        self._selector = selector
        self._serves = serves
        self._failed = failed
        self._pid: int | None = None
        self._report_fd = -1
        self._may_end = False
        """Whether its end is no failure: it has taken over, or was given up."""

    def start(self, *sockets: Sequence[Listener]) -> bool:
        """Start a process that takes over the listeners, redirecting and management sockets.

        Return whether it was started; otherwise the log says why not.
        """
        if self._pid is not None:
            logger.info("SIGUSR2 is ignored: process %d is taking over already", self._pid)
            return False
        try:
            self._pid, self._report_fd = _spawn(*sockets)
        except OSError as error:
            text = "the upgrade has failed: no process can be started: %s; this one goes on"
            logger.error(text, error.strerror)
            return False
        self._may_end = False
        self._selector.register(self._report_fd, selectors.EVENT_READ, self._read_report)
        logger.info("upgrading: process %d starts, and then takes over", self._pid)
        return True

    def collect(self) -> None:
        """Reap the process if it has ended."""
        if self._pid is None:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return
        self._pid = None
        if not self._may_end:
            code = os.waitstatus_to_exitcode(status)
            how = f"exit status {code}" if code >= 0 else f"signal {-code}"
            text = "the upgrade has failed: process %d ended: %s; this one goes on"
            logger.error(text, pid, how)
            self._failed()

    def give_up(self, number: signal.Signals) -> None:
        """End the process with a signal, unless it has taken over."""
        if self._pid is not None and not self._may_end:
            self._may_end = True
            os.kill(self._pid, number)  # it has not been reaped, so this is still its number

    def _read_report(self) -> None:
        """Read the only report: that it serves. Without one it ends, which is reported then."""
        self._selector.unregister(self._report_fd)
        try:
            serves = os.read(self._report_fd, len(SERVES)) == SERVES
        finally:
            os.close(self._report_fd)
        if serves and not self._may_end and self._pid is not None:
            self._may_end = True
            logger.info("process %d serves, and this one drains", self._pid)
            self._serves(self._pid)


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the old process has passed to this one."""

    addresses: Sequence[Address]
    redirecting: Sequence[Address]
    management: Sequence[Address]
    report_fd: int

    def take_files(self, listeners: list[Listener]) -> None:
        """Own the files of the UNIX sockets that the old process owned."""
        passed = (*self.addresses, *self.redirecting, *self.management)
        files = {each.fd: each.path for each in passed}
        for index, each in enumerate(listeners):
            if files.get(each.socket.fileno()):
                listeners[index] = each.owned()

    def report(self) -> None:
        """Notify the old process that this one serves."""
        with suppress(BrokenPipeError):  # it has ended meanwhile
            os.write(self.report_fd, SERVES)


def _spawn(
    listeners: Sequence[Listener],
    redirecting: Sequence[Listener],
    management: Sequence[Listener],
) -> tuple[int, int]:
    """Start the new process; return its id, and the descriptor of its report.

    Raises:
        OSError: it cannot be started.
    """
    report_fd, write_fd = os.pipe()
    passed = {
        "pid": os.getpid(),
        "report_fd": write_fd,
        "listeners": [_described(each) for each in listeners],
        "redirecting": [_described(each) for each in redirecting],
        "management": [_described(each) for each in management],
    }
    environ = {**os.environ, VARIABLE: json.dumps(passed)}
    sockets = (*listeners, *redirecting, *management)
    fds = [write_fd, *(each.socket.fileno() for each in sockets)]
    try:
        with ExitStack() as stack:
            for fd in fds:
                os.set_inheritable(fd, True)
                stack.callback(os.set_inheritable, fd, False)
            arguments = [sys.executable, *sys.orig_argv[1:]]
            pid = os.posix_spawn(sys.executable, arguments, environ, setsigmask=())
    except BaseException:
        os.close(report_fd)
        raise
    finally:
        os.close(write_fd)
    return pid, report_fd


def _described(each: Listener) -> tuple[int, str]:
    """Return the descriptor, and the path of the file, if it is ours to remove."""
    return each.socket.fileno(), each.address.path if each.inode else ""


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
            [Address(fd=fd, path=path) for fd, path in passed.get("management", ())],
            passed["report_fd"],
        )
        os.set_inheritable(found.report_fd, False)
    except (ValueError, KeyError, TypeError, OSError):
        text = f"{VARIABLE} is set by the server itself when it is upgraded; unset it"
        raise ConfigError(text) from None
    if environ.get("WATCHDOG_PID") == str(passed["pid"]):
        environ["WATCHDOG_PID"] = str(os.getpid())
    return found
