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
import signal
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server.listener import Listener

VARIABLE = "BOLIDE_INHERITED"
"""What a new process gets from the old one. It is no option."""
SERVES = b"serves\n"


@dataclass(slots=True)
class Upgrade:
    """The new process, as the old one sees it."""

    pid: int
    report_fd: int
    serves: bool = False

    def read_report(self) -> bool:
        """Read its report, once; return whether it serves, or otherwise ends."""
        try:
            self.serves = os.read(self.report_fd, len(SERVES)) == SERVES
        finally:
            os.close(self.report_fd)
        return self.serves

    def ended(self) -> str | None:
        """Reap it if it has ended, and return how; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return f"exit status {code}" if code >= 0 else f"signal {-code}"

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


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


def start(
    listeners: Sequence[Listener],
    redirecting: Sequence[Listener],
    management: Sequence[Listener],
) -> Upgrade:
    """Start the new process.

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
    return Upgrade(pid, report_fd)


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
