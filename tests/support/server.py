"""Starts the command `bolide serve` the way a user does, and watches it from outside."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from support.client import Connection

APPLICATIONS = Path(__file__).parents[1] / "applications"
"""The folder of the applications that the tests serve."""

OF_THE_RUN = {"BOLIDE_REUSE", "BOLIDE_EAGER_TASKS"}
"""Let a run of the tests do without objects that are used again, or without eager tasks."""
READY = re.compile(r"serving \S+ on (\S.*) \(\d+ workers?, pid (\d+)[,)]")


class Server:
    """A running server process; what it writes to standard error arrives line by line."""

    program: tuple[str, ...] = ("-m", "bolide", "serve")
    """What Python runs."""
    within: tuple[str, ...] = ()
    """The program that runs Python, if it is not run directly."""
    fds: tuple[int, ...] = ()
    """Descriptors that it gets besides the standard streams."""

    def __init__(self, arguments: list[str], cwd: Path, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*self.within, sys.executable, "-W", "error", *self.program, *arguments],
            cwd=cwd,
            env={**clean_environ(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=self.fds,
        )
        self.lines: list[str] = []
        self._arriving: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self.process.pid

    def wait_ready(self) -> Server:
        """Wait until it says that it serves."""
        match = self.wait_line(READY.pattern)
        self.urls: list[str] = match[1].split(", ")
        assert int(match[2]) == self.pid
        return self

    def wait_line(self, pattern: str, timeout_s: float = 20) -> re.Match[str]:
        """Wait for a line on standard error that matches."""
        while True:
            try:
                line = self._arriving.get(timeout=timeout_s)
            except queue.Empty:
                written = "".join(self.lines)
                raise AssertionError(f"no line matches {pattern!r} yet:\n{written}") from None
            assert line is not None, "it ended first:\n" + "".join(self.lines)
            if match := re.search(pattern, line):
                return match

    def is_silent(self, for_s: float) -> bool:
        """Let a time pass; return whether nothing was written in it."""
        try:
            self._arriving.get(timeout=for_s)
        except queue.Empty:
            return True
        return False

    @property
    def address(self) -> tuple[str, int] | str:
        """The first address, for `Connection`."""
        return as_address(self.urls[0])

    def connect(self) -> Connection:
        """Open a connection."""
        return Connection(self.address)

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return children(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        self.process.send_signal(number)

    def signal_twice(self) -> None:
        """Ask it to stop, and then to do so without the time for what is in flight."""
        self.signal(signal.SIGTERM)
        self.wait_line("stopping: ")
        is_stopping_now = False
        while not is_stopping_now:  # what follows at once belongs to the same stop
            self.signal(signal.SIGTERM)
            with contextlib.suppress(queue.Empty):
                is_stopping_now = "stopping now" in (self._arriving.get(timeout=0.1) or "")

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(timeout=20)
        self._reader.join(timeout=20)
        return code

    @property
    def errors(self) -> str:
        """What it wrote to standard error, once it has ended."""
        return "".join(self.lines)

    def close(self) -> None:
        """End it, and the workers that it may have left."""
        processes = [self.pid, *self.workers()] if self.process.poll() is None else []
        for pid in processes:
            kill(pid)
        self.process.wait(timeout=20)
        self._reader.join(timeout=20)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _read_lines(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self._arriving.put(line)
        self._arriving.put(None)


Start = Callable[..., Server]
"""The fixture `start`: takes a target and options, returns a server that is ready."""


def command(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, timeout_s: float = 20
) -> tuple[int, str, str]:
    """Run `bolide` to its end; return the exit code and what it wrote on both streams."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bolide", *arguments],
        cwd=cwd,
        env={**clean_environ(), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return done.returncode, done.stdout, done.stderr


def clean_environ() -> dict[str, str]:
    """Return the environment without variables that would set options or a terminal's size.

    Those that are meant for a whole run of the tests stay. pytest-xdist sets the size.
    """
    left_out = {name for name in os.environ if name.startswith("BOLIDE_")} - OF_THE_RUN
    left_out |= {"COLUMNS", "LINES"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def children(pid: int) -> list[int]:
    """Return the child processes of a process, oldest first."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def kill(pid: int) -> bool:
    """Kill a process; return whether it was there: a worker ends when its supervisor has."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def as_address(url: str) -> tuple[str, int] | str:
    """Turn an address as the server shows it into one that a socket connects to."""
    if url.startswith("unix:"):
        return url.removeprefix("unix:")
    host, _, port = url.removeprefix("https://").removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


def wait_for_end(pid: int, timeout_s: float = 10) -> bool:
    """Wait until a process, which need not be a child of ours, has ended."""
    import select

    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], timeout_s)[0])
    finally:
        os.close(fd)
