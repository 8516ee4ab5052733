"""Guards one server: ends all of its processes when the race ends or dies.

It runs as a program, `guard.py CPUS COMMAND...`, and uses only the standard library. It adopts
every orphan of the command (PR_SET_CHILD_SUBREAPER), so its descendants are the whole server, even
if that becomes a daemon. When its standard input ends, because the race closed it or was killed, it
ends all of them with TERM, then with KILL.

It is two processes. The outer one waits for the inner one, which does all of this, and adopts its
descendants if it is killed. If the outer one is killed, the inner one goes on.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
TERM_S_MAX = 1.0
POLL_S = 0.02
EXIT_CANNOT_START = 127
FILE_BYTES_MAX = 1 << 30
"""Largest size of a file: a server that floods its log must not fill the disk."""


def descendants(pid: int) -> Iterator[int]:
    """Yield all descendants of a process, which any of its threads may have started."""
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return
    for thread in threads:
        with suppress(OSError):
            with open(f"{folder}/{thread}/children", "rb") as file:
                children = file.read().split()
            for word in children:
                yield int(word)
                yield from descendants(int(word))


def main(arguments: list[str]) -> int:
    """Run the command until it or standard input ends; return its exit code."""
    _adopt_orphans()
    if inner := os.fork():
        code = _as_of_shell(os.waitpid(inner, 0)[1])
        _end()
        return code
    _adopt_orphans()
    os.sched_setaffinity(0, {int(cpu) for cpu in arguments[0].split(",")})
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = FILE_BYTES_MAX if hard == resource.RLIM_INFINITY else min(FILE_BYTES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        child = subprocess.Popen(  # noqa: S603 - starting servers is its purpose
            arguments[1:], stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        print(f"{arguments[1]}: {error.strerror}", file=sys.stderr)
        return EXIT_CANNOT_START
    code = _wait(child.pid)
    _end()
    return code


def _adopt_orphans() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _as_of_shell(status: int) -> int:
    """Return an exit code as a shell does: 128 and the number of a signal."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _wait(child: int) -> int:
    """Wait until standard input ends, or no process of the server is left."""
    code = 0
    poll = select.poll()
    poll.register(0, select.POLLIN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    poll.register(reader, select.POLLIN)
    while True:
        for pid, status in _ended():
            if pid == child:
                code = _as_of_shell(status)
        if not any(descendants(os.getpid())):
            return code
        if any(fd == 0 for fd, _ in poll.poll()):
            return 0
        with suppress(BlockingIOError):
            os.read(reader, 4096)


def _ended() -> Iterator[tuple[int, int]]:
    """Yield the children that have ended, with their status."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _end() -> None:
    """End all descendants."""
    started = time.monotonic()
    signalled: set[int] = set()
    while living := set(descendants(os.getpid())):
        is_early = time.monotonic() - started < TERM_S_MAX
        for pid in living - signalled if is_early else living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if is_early else signal.SIGKILL)
        signalled |= living
        list(_ended())
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
