"""Starts a server or a tool on chosen processors, and ends all its processes."""

from __future__ import annotations

import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bolide.lab.trial import guard

READY_S_MAX = 20.0
END_S_MAX = guard.TERM_S_MAX + 10.0
LOG_LINES = 4
LOG_TAIL_BYTES = 4096
LINE_SHOWN_MAX = 300
HIDDEN = (
    *("PYTHON", "VIRTUAL_ENV", "WEB_CONCURRENCY", "FORWARDED_ALLOW_IPS", "AIOHTTP_"),
    *("BOLIDE_", "GRANIAN_", "GUNICORN_", "HYPERCORN_", "ROBYN_", "SANIC_", "UVICORN_", "UWSGI_"),
    *("GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "NODE_", "UV_THREADPOOL_SIZE"),
    *("CADDY_", "NGINX", "PHPRC", "PHP_", "RUST_", "TOKIO_"),
)
"""Prefixes of variables that a server does not inherit: they would change what is measured."""

CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\n -~\u00a0-\U0010ffff]")
"""Colours and control characters, which servers write for terminals."""
SIGNALLED = {128 + number for number in signal.valid_signals()}
PORT_MIN = 10_000
PORTS_MIN = 1_000
"""With fewer below those of outgoing connections, these are used too."""
LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


class NotReadyError(Exception):
    """A server that did not start; the message contains its output."""


class Process:
    """A running command under a guard (`guard.py`), in a session of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cpus: Sequence[int],
        folder: Path,
        log: Path,
        variables: Mapping[str, str],
        errors: Path | None = None,
    ) -> None:
        """Start it. Standard output goes to the log, standard error too or to its own file."""
        self._log = log
        self._seen: dict[int, int] = {}
        """Descriptors of the processes that were listed, by their number."""
        reader, self._guard_stdin = os.pipe()
        self._guards, held = os.pipe()
        try:
            log.write_bytes(b"")
            # A command that opens /dev/stdout itself, as ab does, must append, not overwrite.
            with log.open("ab") as output, (errors or log).open("ab") as other:
                self._guard = subprocess.Popen(  # noqa: S603 - starting servers is its purpose
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        guard.__file__,
                        ",".join(map(str, cpus)),
                        *command,
                    ],
                    stdin=reader,
                    stdout=output,
                    stderr=other if errors else output,
                    cwd=folder,
                    env={**_inherited(), **variables},
                    start_new_session=True,
                    pass_fds=(held,),  # which ends with the last process of the guard
                )
        except BaseException:
            os.close(self._guard_stdin)
            os.close(self._guards)
            raise
        finally:
            os.close(reader)
            os.close(held)

    def pids(self) -> list[int]:
        """Return the living processes of the command, with all that it started."""
        found = [pid for pid in guard.descendants(self._guard.pid) if self._is_of_command(pid)]
        for pid in [pid for pid, process in self._seen.items() if _is_ready(process, 0.0)]:
            os.close(self._seen.pop(pid))  # it has ended
        for pid in found:
            if pid not in self._seen:
                with suppress(OSError):
                    self._seen[pid] = os.pidfd_open(pid)
        return found

    def _is_of_command(self, pid: int) -> bool:
        """Return whether it is in another session than the guard, as is all that it starts."""
        with suppress(ProcessLookupError):
            return os.getsid(pid) != self._guard.pid
        return False

    def processors(self) -> set[int]:
        """Return the processors on which any of its threads may run."""
        found: set[int] = set()
        for pid in self.pids():
            with suppress(OSError):  # it has just ended
                for thread in os.listdir(f"/proc/{pid}/task"):
                    found |= os.sched_getaffinity(int(thread))
        return found

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None while any of its processes lives."""
        return self._guard.poll()

    def wait(self, timeout_s: float) -> None:
        """Wait until it ends or the time is over, without polling."""
        if self._guard.poll() is not None:
            return
        end = os.pidfd_open(self._guard.pid)
        try:
            _is_ready(end, timeout_s)
        finally:
            os.close(end)

    def end_reason(self) -> str:
        """Return how it ended: signal or exit code, and its last output."""
        code = self.exit_code or 0
        code = 128 - code if code < 0 else code  # its guard was killed
        by = f"by {signal.Signals(code - 128).name}" if code in SIGNALLED else f"with {code}"
        return f"ended {by}: {self.last_output() or 'it wrote nothing'}"

    def last_output(self) -> str:
        """Return its last lines of output as one line, without control sequences."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = CONTROL.sub("", log.read().decode(errors="replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(line[:LINE_SHOWN_MAX] for line in lines[-LOG_LINES:])

    def wait_ready(self, address: tuple[str, int], timeout_s: float = READY_S_MAX) -> None:
        """Wait until it accepts a connection.

        Raises:
            NotReadyError: it ended, or did not listen in time.
        """
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            if self.exit_code is not None:
                raise NotReadyError(self.end_reason())
            try:
                with socket.create_connection(address, timeout=1.0):
                    return
            except OSError:
                time.sleep(0.01)
        raise NotReadyError(f"does not listen after {timeout_s:g} s: {self.last_output()}")

    def end(self) -> None:
        """End it and everything that it started, also if its guard was killed."""
        if self._guard_stdin < 0:
            return
        self.pids()
        os.close(self._guard_stdin)
        self._guard_stdin = -1
        _is_ready(self._guards, END_S_MAX)
        os.close(self._guards)
        self._end_survivors()
        self._guard.kill()
        self._guard.wait()

    def _end_survivors(self) -> None:
        """End what was listed and lives on, because no process of the guard was left to end it."""
        for process in self._seen.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                _is_ready(process, END_S_MAX)
            os.close(process)
        self._seen.clear()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _is_ready(fd: int, timeout_s: float) -> bool:
    """Wait until a process or a pipe has ended; return whether it has. Any descriptor will do."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}


def port_range() -> tuple[int, int]:
    """Return the ports on which servers listen, without the last: none of outgoing connections."""
    try:
        last = int(LOCAL_PORTS.read_text(encoding="ascii").split()[0])
    except OSError:
        last = 32768
    return PORT_MIN, last if last > PORT_MIN + PORTS_MIN else 32_768


def free_port(address: str = "127.0.0.1") -> int:
    """Find a free port of an address, below those of outgoing connections.

    Raises:
        NotReadyError: none was found.
    """
    for _ in range(200):
        port = random.randrange(*port_range())  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise NotReadyError("no free port between 10000 and the ports of outgoing connections")
